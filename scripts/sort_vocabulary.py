"""Write zeus_runtime/context/tokens/o200k_base.sorted anew, if litellm carries another file of the encoding.

``python scripts/sort_vocabulary.py``, from the checkout.
"""

from __future__ import annotations

from pathlib import Path

from zeus_runtime.context.tokens import encodings
from zeus_runtime.context.tokens.vocabulary import sorted_lines

ENCODING = "o200k_base"


def main() -> None:
    """Sort the encoding's lines, and take the pattern of its words from tiktoken."""
    lines = encodings.file_of(ENCODING).read_bytes()
    content = sorted_lines(lines, encodings.loaded(ENCODING)._pat_str)
    (Path(encodings.__file__).with_name(f"{ENCODING}.sorted")).write_bytes(content)


if __name__ == "__main__":
    main()
