"""The contract tests of every kind of part, for parts of one's own: one line in one's own tests.

    from workbench.testing import contract

    test_my_parts = contract("my_parts.py")

pytest then runs each check on each part as a test of its own, and says in words what is broken. The parts of this
package are held to the same checks. `check` runs them without pytest.
"""

from __future__ import annotations

from workbench.testing.parts import Case, cases, check, contract
from workbench.testing.require import ContractError, NotTested

__all__ = ["Case", "ContractError", "NotTested", "cases", "check", "contract"]
