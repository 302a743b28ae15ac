"""Whether bash splits a command line into the tokens that the parser found. Pure.

Where bash sees a command, a parser may see a comment or a part of a word, and so hide the command. So each byte must be
in a token that is listed here with its form, or in white space that also separates words in bash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

_WORD: Final = rb"""(?!#)(?:[^\s\\"'`$()<>;|&]|\\[^\n])+"""
_FORMS: Final = {
    kind: re.compile(form, re.DOTALL)
    for kind, form in {
        "word": _WORD,
        "extglob_pattern": _WORD,
        "number": rb"-?[0-9]+",
        "test_operator": rb"-[A-Za-z]+",
        "file_descriptor": rb"[0-9]+",
        "variable_name": rb"[A-Za-z_][A-Za-z0-9_]*|[0-9]",
        "special_variable_name": rb"[*@?!#$_0-9-]",
        "raw_string": rb"'[^']*'",
        "ansi_c_string": rb"\$'(?:[^'\\]|\\.)*'",
        "string_content": rb"""(?:[^"`$\\]|\\.)+""",
        "comment": rb"#[^\n]*",
        "heredoc_start": rb"""'[A-Za-z_]+'|"[A-Za-z_]+\"""",
        "heredoc_body": rb"(?:[^\n]*\n)*",
        "heredoc_end": rb"[A-Za-z_]+",
    }.items()
}
"""The kinds of tokens whose text the line gives."""
_SIGNS: Final = frozenset(
    '; & && || | |& ( ) { } ! $( ` <( >( if then elif else fi while until do done [ ] [[ ]] = == != += .. " $ ${'
    " > >> >| < >& <& &> &>> <> <<< <<".split()
) | {"\n"}
_OF_BASH: Final = frozenset("[[ ]] |& <( >( &> &>> <<< ansi_c_string".split())
"""The tokens that other shells read otherwise: for `ls &>/dev/null rm a`, dash runs `ls` and `rm a`."""
_FOLLOWED_BY_SPACE: Final = frozenset("{ ! [ [[".split())
_RESERVED: Final = frozenset("if then elif else fi while until do done ] ]] }".split())
"""Words that end with a separator: in `fi#` or `then''`, bash sees another word."""
_JOINED: Final = frozenset(
    "simple_expansion expansion concatenation brace_expression variable_assignment".split()
)
"""What bash takes together only without space within: a `$` before a new line is a `$`."""
_SPACE: Final = re.compile(rb"(?:[ \t\n]|(?<=[ \t])\\\n)*")
"""A continued line separates words only after a blank; else bash joins what is before and behind. So only the space
itself is searched: the blank of `a\\ ` is a part of the word."""
_ON_ONE_LINE: Final = frozenset(
    "command test_command unary_expression binary_expression redirected_statement file_redirect herestring_redirect"
    " negated_command".split()
)
"""A new line ends a command, also between `[` and `]`."""
_WORD_ENDS: Final = re.compile(rb"[ \t\n;&|()]|[<>](?!\()|\Z")
"""`<(` and `>(` do not end a word: in `ls<(x)`, bash runs the program `ls/dev/fd/63`."""
_SUBSTITUTIONS: Final = frozenset(("command_substitution", "process_substitution"))


def splits_as_bash(data: bytes, root: Node) -> bool:
    """Whether the tokens of a tree are certainly those of bash.

    Args:
        data: the line.
        root: its tree, without errors and not too deep for recursion.
    """
    end = 0
    for token, is_substituted in _tokens(root, is_substituted=False):
        start = token.start_byte
        if start < end or not _is_space(data, end, start) or not _has_form(token, _text(data, token)):
            return False
        if not _is_separate(data, token):
            return False
        if is_substituted and token.type in ("comment", "heredoc_start"):
            return False  # versions of bash differ in where the substitution ends
        end = token.end_byte
    return _is_space(data, end, len(data)) and all(_is_whole(data, each) for each in _nodes(root))


def is_of_any_shell(root: Node) -> bool:
    """Whether a line whose tokens are those of bash has none that another shell reads otherwise."""
    return all(each.type not in _OF_BASH for each in _nodes(root))


def _tokens(node: Node, *, is_substituted: bool) -> Iterator[tuple[Node, bool]]:
    if not node.children:
        yield node, is_substituted
    for each in node.children:
        yield from _tokens(each, is_substituted=is_substituted or node.type in _SUBSTITUTIONS)


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for each in node.children:
        yield from _nodes(each)


def _text(data: bytes, node: Node) -> bytes:
    return data[node.start_byte : node.end_byte]


def _is_space(data: bytes, start: int, end: int) -> bool:
    return _SPACE.fullmatch(data[start:end]) is not None


def _has_form(token: Node, text: bytes) -> bool:
    if not token.is_named:
        # The parser also takes a word before it for a part of a sign: `-f<<` is a `<<` for it.
        return token.type in _SIGNS and text == token.type.encode()
    form = _FORMS.get(token.type)
    return form is not None and form.fullmatch(text) is not None


def _is_separate(data: bytes, token: Node) -> bool:
    """Whether bash, too, ends a token there, if it has its meaning only as a separate word."""
    around = token.parent
    if around is not None and around.type in ("brace_expression", "expansion"):
        return True  # its braces are parts of a word
    if token.type in _FOLLOWED_BY_SPACE:
        return data[token.end_byte : token.end_byte + 1] in (b" ", b"\t", b"\n")
    return token.type not in _RESERVED or _WORD_ENDS.match(data, token.end_byte) is not None


def _is_whole(data: bytes, node: Node) -> bool:
    """Whether bash, too, takes the tokens of a node together, and those of its neighbours apart."""
    if node.type in _JOINED:
        pairs = zip(node.children, node.children[1:], strict=False)
        if any(one.end_byte != other.start_byte for one, other in pairs):
            return False
    if node.type in _ON_ONE_LINE:
        pairs = zip(node.children, node.children[1:], strict=False)
        gaps = [(data[one.end_byte : other.start_byte], other) for one, other in pairs]
        if any(b"\n" in gap.replace(b"\\\n", b"") for gap, _ in gaps):
            return False
        return node.type != "command" or all(
            gap or (data[other.start_byte] in b"<>&" and _WORD_ENDS.match(data, other.start_byte))
            for gap, other in gaps
        )
    if node.type == "command_substitution" and _text(data, node).startswith(b"`"):
        # Bash ends it at the next backquote, also within quotes.
        inner = _text(data, node)[1:-1]
        return b"\\" not in inner and b"`" not in inner
    if node.type != "simple_expansion" and any(each.type == "$" for each in node.children):
        return False  # `$[…]` and `$"…"` are more than a dollar sign
    if node.type == "heredoc_redirect":
        return _is_whole_heredoc(data, node)
    return True


def _is_whole_heredoc(data: bytes, node: Node) -> bool:
    if [each.type for each in node.children] != ["<<", "heredoc_start", "heredoc_body", "heredoc_end"]:
        return False
    _, start, _, end = node.children
    name = _text(data, start)[1:-1]
    return _text(data, end) == name and data[end.end_byte : end.end_byte + 1] in (b"", b"\n")
