"""Add up the JUnit reports named on the command line and print one line: N passed, N failed."""

import sys
from collections import Counter
from xml.etree import ElementTree

total = Counter()
for path in sys.argv[1:]:
    for suite in ElementTree.parse(path).iter("testsuite"):
        total.update({name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")})
failed = total["failures"] + total["errors"]
sys.stdout.write(f"{total['tests'] - failed - total['skipped']} passed, {failed} failed\n")
