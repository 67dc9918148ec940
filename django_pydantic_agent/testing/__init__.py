"""What projects and this one test with: scripted models and conformance suites."""
