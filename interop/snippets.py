"""The programs that the documentation prints, as a reader would copy them."""

import os
import re

DOCUMENTATION = os.path.join(os.path.dirname(__file__), "../docs/operating")


def printed(page, heading, language):
    """The first block of this language under a heading of a page of docs/operating."""
    with open(os.path.join(DOCUMENTATION, page), encoding="utf-8") as file:
        text = file.read()
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert section, f"{page} has no section {heading!r}"
    block = re.search(rf"^```{language}\n(.*?)^```$", section.group(1), re.DOTALL | re.MULTILINE)
    assert block, f"{page}, {heading!r}: no block of {language}"
    return block.group(1)


def replaced(text, *places):
    """The text with what is another on this machine, as pairs of old and new; each old one has to be there."""
    for old, new in places:
        assert old in text, f"{old!r} is not in {text}"
        text = text.replace(old, new)
    return text
