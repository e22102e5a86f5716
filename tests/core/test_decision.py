"""Evidence and decisions as they are written: JSON keeps its keys, and what is typed inside is text outside."""

from __future__ import annotations

import msgspec

from hedgerow.core.decision import ISSUED_TO_ANOTHER, PASS, Decision, Evidence

DIGEST = bytes(range(8))
SHARED = Evidence("integrity", ISSUED_TO_ANOTHER, 0.1, "A link of another.", details=DIGEST.hex())


def test_whom_a_link_was_issued_to_is_typed_and_written_as_details():
    assert SHARED.issued_to == DIGEST
    assert msgspec.to_builtins(SHARED) == {
        "detector": "integrity",
        "code": "minted-for-another",
        "weight": 0.1,
        "text": "A link of another.",
        "key": "",
        "details": "0001020304050607",
    }
    assert msgspec.json.decode(msgspec.json.encode(SHARED), type=Evidence).issued_to == DIGEST


def test_other_evidence_names_nobody_whatever_its_details():
    assert Evidence("entry", "entry", 0.0, "", details="00ff").issued_to is None


def test_the_code_of_a_decision_is_that_of_its_heaviest_evidence():
    trap = Evidence("trap", "trap", 1.0, "A trap.")
    assert Decision("refuse", (SHARED, trap)).code == "trap"
    assert PASS.code == ""
