"""Files become text with their structure and pages; what cannot be read says why."""

from __future__ import annotations

import sys

import pytest

from tests.support.knowledge import bookmarked, docx, pdf
from zeus_runtime.errors import MissingError
from zeus_runtime.knowledge.convert import UnreadableError, convert_file


def test_a_pdf_keeps_its_pages() -> None:
    found = convert_file("a.pdf", pdf("The first page.", "The second page."))
    assert [(page.number, page.text.strip()) for page in found.pages] == [
        (1, "The first page."),
        (2, "The second page."),
    ]
    assert "[page 2]" in found.text


def test_a_word_document_keeps_headings_lists_and_tables() -> None:
    found = convert_file("a.docx", docx())
    assert found.form == "markdown"
    assert "# Voyage" in found.text
    assert "- bread" in found.text
    assert "| Pylos | 3 |" in found.text


def test_html_is_read_without_scripts_and_styles() -> None:
    page = b"<html><head><title>t</title><style>p{}</style></head><body><h2>Ports</h2><script>x()</script><p>Pylos</p>"
    found = convert_file("a.html", page)
    assert found.text == "## Ports\n\nPylos"


def test_what_html_says_of_its_characters_is_believed() -> None:
    page = '<meta charset="iso-8859-1"><p>caf\xe9'.encode("latin-1")
    assert convert_file("a.htm", page).text == "café"


def test_short_html_that_says_nothing_of_its_characters_is_utf_8_if_it_can_be() -> None:
    # A guess takes this text for Shift-JIS, in which a backslash is a yen sign.
    text = "The database password is F\\AV3fO$KJw\\~g until May."
    assert convert_file("a.html", f"<p>{text}</p>".encode()).text.replace("\\\\", "\\") == text
    assert convert_file("a.html", "<p>caf\xe9".encode("utf-16")).text == "café"


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.md", "markdown"), ("a.txt", "text"), ("README", "text"), ("a.py", "code"), ("a.yaml", "code")],
)
def test_text_is_taken_as_it_is(name: str, form: str) -> None:
    found = convert_file(name, b"\xef\xbb\xbfone\r\ntwo")
    assert (found.form, found.text) == (form, "one\ntwo")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("员工手册。员工每年有十五天年假。请假须提前三天申请。", "gbk"),
        ("員工每年有十五天年假。請提前三天申請。", "big5"),
        ("社員は年に十五日の有給休暇を取得できます。申請は三日前までに。", "shift_jis"),
        ("社員は年に十五日の有給休暇を取得できます。申請は三日前までに。", "euc_jp"),
        ("직원은 매년 15일의 휴가를 가질 수 있습니다.", "euc_kr"),
        ("Der Urlaub beträgt fünfzehn Tage. Bitte früh genug im Büro anmelden.", "latin-1"),
        ("Сотрудник имеет право на пятнадцать дней отпуска в год.", "cp1251"),
        ("fifteen days, quinze jours, cinquante congés 十五天", "utf-16"),
        ("fifteen days, quinze jours, cinquante congés 十五天", "utf-32"),
    ],
)
def test_text_in_another_encoding_is_read(text: str, encoding: str) -> None:
    assert convert_file("a.md", text.encode(encoding)).text == text


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("encoding", ["gb18030", "cp932", "cp949"])
def test_a_long_text_in_another_encoding_is_read_wherever_its_sample_ends(before: int, encoding: str) -> None:
    words = {
        "gb18030": "员工每年有十五天年假",
        "cp932": "従業員は年に十五日の休暇を取れます",
        "cp949": "직원은 연간 십오일의 휴가를",
    }
    text = "x" * before + words[encoding] * 9_000
    assert convert_file("a.txt", text.encode(encoding)).text == text


def test_the_encoding_is_that_of_the_first_text_beyond_ascii() -> None:
    text = "The crew rows. " * 20_000 + "员工每年有十五天年假。请假须提前三天申请。" * 4
    assert convert_file("a.txt", text.encode("gbk")).text == text


def test_a_page_of_a_pdf_stands_under_its_bookmarks() -> None:
    found = convert_file("a.pdf", bookmarked("One.", "Two.", "Three.", "Four."))
    assert [page.heading for page in found.pages] == ["", "Voyage", "Voyage > Sirens", "Voyage > Sirens"]


def test_a_page_with_several_bookmarks_stands_under_the_first_and_the_next_page_under_the_last() -> None:
    found = convert_file("a.pdf", bookmarked("One.", "Two.", "Three.", "Four.", "Five.", last="Harbour"))
    assert [page.heading for page in found.pages] == ["", "Voyage", "Voyage > Sirens", "Harbour", "Harbour"]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.txt", b"a\0b", "not text"),
        ("a.txt", bytes(range(1, 256)), "not text, or in an encoding that is not known"),
        ("a.txt", "café".encode("utf-16") + b"x", "looks like UTF-16"),
        ("a.pdf", b"no pdf at all", "damaged"),
        ("a.docx", b"PK no zip", "damaged"),
        ("a.pdf", pdf(""), "no text, only pictures"),
        ("a.html", b"<div>" * 20_000, "damaged"),
    ],
)
def test_what_cannot_be_read_says_why(name: str, data: bytes, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        convert_file(name, data)


def test_without_the_extra_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(MissingError, match="pip install 'zeus-runtime\\[kb\\]'"):
        convert_file("a.pdf", pdf("x"))


def test_a_document_that_takes_too_long_is_unreadable_and_the_next_is_read() -> None:
    from zeus_runtime.tools.worker_process import Apart

    # No parser written in Python makes a million elements in half a second, whatever its version.
    endless = b"<p>" * 1_000_000
    with Apart() as apart:
        with pytest.raises(UnreadableError, match="longer than 0\\.5 seconds"):
            convert_file("a.html", endless, apart=apart, seconds=0.5)
        assert convert_file("b.html", b"<h1>Fine</h1>", apart=apart).text == "# Fine"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<p>shop-Secre<b>t-abc123</b></p>", "shop-Secret-abc123"),
        ("<p>see <em>shop</em>-Secret-<code>abc</code>123 there</p>", "see shop-Secret-abc123 there"),
        ("<p><i><b>shop</b></i>-Secret</p>", "shop-Secret"),
        ("<h1>A sh<strong>op</strong></h1>", "# A shop"),
        ("<p><b>Note</b>: a <code>word</code>, (<em>or two</em>).</p>", "**Note**: a `word`, (*or two*)."),
        ("<p>one</p><p><b>two</b></p>", "one\n\n**two**"),
    ],
)
def test_a_word_of_which_a_part_is_marked_stays_whole(html: str, markdown: str) -> None:
    assert convert_file("a.html", html.encode()).text == markdown
