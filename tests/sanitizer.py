"""What tests of a program with a sanitizer in it must know: it is slow, and its shadow takes terabytes of address space and memory
beside the plan."""
import functools
import os
import sys

PATIENCE = 5 if os.environ.get("EVROS_SANITIZE") else 1  # times what another build is waited for


def without_sanitizer(test):
    """Limits the address space or counts what is resident: in a build with a sanitizer the test says so in one line and ends."""
    @functools.wraps(test)
    def run(self):
        if os.environ.get("EVROS_SANITIZE"):
            print(f"{test.__name__}: not run, a sanitizer's own memory is no part of the plan", file=sys.stderr)
        else:
            test(self)
    return run
