import subprocess
import sys


def test_declaring_a_registry_imports_no_agent_library():
    program = (
        "import sys\n"
        "from django_pydantic_agent import AgentDeps, ToolRegistry, tool\n"
        "registry = ToolRegistry(model='openai:gpt-5.2', instructions='Help.')\n"
        "@registry.tool(idempotent=True)\n"
        "def look(ctx: 'RunContext[AgentDeps]', word: str) -> str: ...\n"
        "assert repr(registry) == \"<ToolRegistry 'agent': look>\"\n"
        "print(*(name for name in sys.modules if name.startswith('pydantic_ai')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
