"""Fetching pages from loopback servers: what is refused, where limits hold, and what a model reads."""

from __future__ import annotations

import asyncio
import gzip
import socket
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpcore
import pytest
from zeus_plugins.tools.web.addresses import parse_allowed, refusal
from zeus_plugins.tools.web.fetching import Fetched, fetch
from zeus_plugins.tools.web.options import Options
from zeus_plugins.tools.web.pages import as_markdown, page_text
from zeus_plugins.tools.web.urls import WebError, host_name, matches, target

from tests.support.knowledge import docx, pdf
from tests.support.ports import unused_port


class Server:
    """A web server on this machine.

    Args:
        pages: path to (status, headers, body).
    """

    def __init__(self, pages: Mapping[str, tuple[int, Mapping[str, str], bytes]]) -> None:
        self.asked: list[tuple[str, str]] = []
        self.headers: list[Mapping[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.headers["Host"], self.path))
                outer.headers.append(dict(self.headers))
                if self.path == "/late":
                    outer.released.wait(0.5)
                status, headers, body = pages.get(self.path, (404, {}, b"nothing here"))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(body)
                    if self.path == "/slow":
                        outer.released.wait(10)
                except OSError:
                    return

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                return

        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self.options = Options(allow_private=(f"127.0.0.1:{self.port}",))

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()


HTML = {"Content-Type": "text/html; charset=utf-8"}
BOMB = gzip.compress(b"a" * 50_000_000, compresslevel=1)
PAGES: dict[str, tuple[int, Mapping[str, str], bytes]] = {
    "/page": (200, HTML, "<title>Téa</title><h2>Two</h2><p>A <a href='/x'>link</a></p>".encode()),
    "/to-page": (302, {"Location": "/page"}, b""),
    "/to-metadata": (302, {"Location": "http://169.254.169.254/latest/meta-data"}, b""),
    "/to-file": (302, {"Location": "file:///etc/passwd"}, b""),
    "/to-denied": (302, {"Location": "http://denied.example/"}, b""),
    "/to-letters": (302, {"Location": "/b\u00c3\u00bccher"}, b""),  # UTF-8, as it stands on the wire
    "/b%C3%BCcher": (200, {"Content-Type": "text/plain"}, b"books"),
    "/to-escaped": (302, {"Location": "http://de\\nied.example/"}, b""),
    "/to-nowhere": (302, {"Location": "http://[::1"}, b""),
    "/loop": (301, {"Location": "/loop"}, b""),
    "/slow": (200, {"Content-Type": "text/plain", "Content-Length": "100"}, b"start"),
    "/late": (200, {"Content-Type": "text/plain"}, b"at last"),
    "/settings": (200, {"Content-Type": "text/plain"}, b"The token of this host is Qk7-token-0123456789."),
    "/large": (200, {"Content-Type": "text/plain"}, b"x" * 300_000),
    "/bomb": (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, BOMB),
    "/deflate": (
        200,
        {"Content-Type": "text/plain", "Content-Encoding": "deflate"},
        zlib.compress(b"unpacked")[2:-4],
    ),
    "/brotli": (200, {"Content-Type": "text/plain", "Content-Encoding": "br"}, b"??"),
    "/two-packs": (
        200,
        {"Content-Type": "text/plain", "Content-Encoding": "gzip"},
        gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0",
    ),
    "/more-behind": (
        200,
        {"Content-Type": "text/plain", "Content-Encoding": "gzip"},
        gzip.compress(b"whole") + b"\n<!-- made in 0.1 s -->",
    ),
    "/cut": (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, gzip.compress(b"whole")[:-9]),
    "/broken": (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, b"no gzip at all"),
    "/image": (200, {"Content-Type": "image/png"}, b"\x89PNG"),
    "/json": (200, {"Content-Type": "application/json"}, b'{"a": 1}'),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(PAGES).running() as running:
        yield running


async def said(url: str, options: Options, **named: Any) -> str:
    """Why a page is not fetched."""
    with pytest.raises(WebError) as refused:
        await fetch(url, options, **named)
    return str(refused.value)


async def test_a_page_comes_as_markdown_with_its_title(server: Server) -> None:
    page = await fetch(f"{server.url}/to-page#part", server.options)
    assert page.url == f"{server.url}/page"
    assert page_text(page) == "# Téa\n\n## Two\n\nA [link](/x)"
    assert server.asked[-1] == (f"127.0.0.1:{server.port}", "/page")


async def test_private_addresses_are_refused_before_anything_is_asked(server: Server) -> None:
    before = len(server.asked)
    text = await said(f"{server.url}/page", Options())
    assert "this machine itself" in text
    assert "allow_private" in text
    for host in ("localhost", "[::1]", "[::ffff:127.0.0.1]", "0x7f000001", "2130706433", "127.1", "0"):
        assert await said(f"http://{host}:{server.port}/page", Options())
    assert len(server.asked) == before


async def test_what_is_allowed_is_that_port_and_no_other(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.05)
        assert "this machine" in await said(f"http://127.0.0.1:{other.getsockname()[1]}/", server.options)
        with pytest.raises(TimeoutError):
            other.accept()


async def test_every_redirect_is_looked_at(server: Server) -> None:
    assert "link-local" in await said(f"{server.url}/to-metadata", server.options)
    assert "only http and https" in await said(f"{server.url}/to-file", server.options)
    assert "redirects to an invalid web address" in await said(f"{server.url}/to-nowhere", server.options)
    denying = Options(allow_private=server.options.allow_private, deny_hosts=("denied.example",))
    assert "deny_hosts" in await said(f"{server.url}/to-denied", denying)
    assert "is not the name of a host" in await said(f"{server.url}/to-escaped", denying)
    assert "more than 5 redirects" in await said(f"{server.url}/loop", server.options)


async def test_a_redirect_may_be_written_with_letters(server: Server) -> None:
    assert (await fetch(f"{server.url}/to-letters", server.options)).data == b"books"


async def test_a_name_that_changes_its_address_gains_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver says a public address first and this machine's afterwards, as an attacker's would."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])
    asked: list[str] = []
    dialled: list[str] = []

    async def nobody_there(_self: object, host: str, *_more: object) -> object:
        dialled.append(host)
        raise httpcore.ConnectError("nobody is there")

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", nobody_there)

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return next(answers)

    page = f"http://rebind.example:{server.port}/page"
    assert "cannot be fetched: nobody is there" in await said(page, Options(), resolve=rebinding)
    assert asked == ["rebind.example"], "one answer serves the check and the connection"
    assert "this machine" in await said(page, Options(), resolve=rebinding)
    assert dialled == ["93.184.216.34"]


async def test_one_bad_address_among_good_ones_is_enough(server: Server) -> None:
    async def mixed(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34", "10.0.0.5"]

    assert "10.0.0.5 is not a public address" in await said("http://mixed.example/", Options(), resolve=mixed)


async def test_the_name_reaches_the_server_though_the_address_is_dialled(server: Server) -> None:
    async def local(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    await fetch(f"http://docs.example:{server.port}/page", server.options, resolve=local)
    assert server.asked[-1][0] == f"docs.example:{server.port}"


async def test_an_address_that_is_silent_does_not_take_the_time_of_one_that_answers(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    dial = httpcore.AnyIOBackend.connect_tcp

    async def silent_over_ipv6(self: Any, host: str, port: int, timeout: float | None, *more: Any) -> Any:  # noqa: ASYNC109
        if ":" not in host:
            return await dial(self, host, port, timeout, *more)
        if timeout is None:
            await asyncio.Event().wait()
        raise httpcore.ConnectTimeout

    async def both(host: str, port: int) -> Sequence[str]:
        return ["::1", "127.0.0.1"]

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", silent_over_ipv6)
    options = Options(allow_private=("::1", *server.options.allow_private), timeout_seconds=60)
    page = await fetch(f"http://docs.example:{server.port}/page", options, resolve=both)
    assert page.status == 200


async def test_hosts_can_be_allowed_and_denied(server: Server) -> None:
    async def local(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    private = server.options.allow_private
    only = Options(allow_private=private, allow_hosts=("*.docs.example",))
    assert (await fetch(f"http://a.docs.example:{server.port}/page", only, resolve=local)).status == 200
    assert "allow_hosts" in await said(f"http://docs.example:{server.port}/page", only, resolve=local)
    both = Options(allow_private=private, allow_hosts=("*.example",), deny_hosts=("bad.example",))
    assert "deny_hosts" in await said(f"http://BAD.example.:{server.port}/page", both, resolve=local)


async def test_a_page_that_does_not_end_ends_by_the_clock(server: Server) -> None:
    options = Options(allow_private=server.options.allow_private, timeout_seconds=0.3)
    assert "within 0.3 seconds" in await said(f"{server.url}/slow", options)


async def test_only_so_many_bytes_are_read(server: Server) -> None:
    options = Options(allow_private=server.options.allow_private, max_bytes=10_000)
    page = await fetch(f"{server.url}/large", options)
    assert (len(page.data), page.whole) == (10_000, False)


async def test_a_bomb_is_unpacked_no_further_than_wanted(server: Server) -> None:
    import tracemalloc

    options = Options(allow_private=server.options.allow_private, max_bytes=100_000)
    tracemalloc.start()
    page = await fetch(f"{server.url}/bomb", options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(page.data), page.whole) == (100_000, False)
    assert peak < 5_000_000


async def test_packed_answers_that_were_not_asked_for_or_are_broken_are_said(server: Server) -> None:
    assert "content encoding br" in await said(f"{server.url}/brotli", server.options)
    assert "cannot be decompressed" in await said(f"{server.url}/broken", server.options)
    assert "is incomplete" in await said(f"{server.url}/cut", server.options)
    assert (await fetch(f"{server.url}/deflate", server.options)).data == b"unpacked"
    assert (await fetch(f"{server.url}/two-packs", server.options)).data == b"one two"
    assert (await fetch(f"{server.url}/more-behind", server.options)).data == b"whole"


async def test_a_server_that_is_not_there_is_said() -> None:
    port = unused_port()
    assert "cannot be fetched" in await said(
        f"http://127.0.0.1:{port}/", Options(allow_private=(f"127.0.0.1:{port}",))
    )
    assert "there is no host" in await said("http://nowhere.invalid/", Options())


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1",
        "fd00:ec2::254", "ff02::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001:db8::1", "2001:0:a00:1::",
        "168.63.129.16", "192.0.0.192", "fec0::1", "3fff::1", "5f00::1", "::ffff:0:7f00:1",
        "64:ff9b:1:7f00:1:0:808:808",
        "no address",
    ],
)  # fmt: skip
def test_no_address_that_is_not_public_is_connected_to(address: str) -> None:
    assert refusal(address, 80, ()) is not None


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_connected_to(address: str) -> None:
    assert refusal(address, 443, ()) is None


def test_what_may_be_private_is_a_network_or_an_address_with_a_port() -> None:
    allowed = [parse_allowed("10.1.0.0/16"), parse_allowed("[::1]:8080"), parse_allowed("192.168.1.5")]
    assert refusal("10.1.9.9", 80, allowed) is None
    assert refusal("::ffff:10.1.9.9", 80, allowed) is None
    assert refusal("::1", 8080, allowed) is None
    assert refusal("::1", 80, allowed) is not None
    assert refusal("192.168.1.5", 9, allowed) is None
    assert refusal("10.2.0.1", 80, allowed) is not None
    for wrong in ("intranet", "10.1.0.0/16:80", "1.2.3", ""):
        with pytest.raises(ValueError, match=r"."):
            parse_allowed(wrong)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "example.com",
        "http://",
        "http:///path",
        "javascript:alert(1)",
        "http://user:pass@example.com/",
        "http://example.com:99999/",
        "http://[::1/",
        "http://exa mple.com:x/",
        "http://example.com/\ud800",
        "http://example.com/?q=\udc00",
        "http://\ud800.example.com/",
        "",
    ],
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(WebError):
        target(url, allow=None, deny=())


def test_addresses_are_written_as_servers_want_them() -> None:
    assert target("HTTPS://Bücher.example/ä b?q=ü#top", allow=None, deny=()) == (
        "https://xn--bcher-kva.example/%C3%A4%20b?q=%C3%BC",
        "xn--bcher-kva.example",
        443,
    )
    assert (
        target("http://[2606:4700::1]:8080/%41", allow=None, deny=()).url == "http://[2606:4700::1]:8080/%41"
    )


def test_a_name_with_letters_is_the_host_that_browsers_go_to() -> None:
    assert target("https://faß.example/", allow=("faß.example",), deny=()).host == "xn--fa-hia.example"
    assert target("https://１２７.０.０.１/", allow=None, deny=()).host == "127.0.0.1"
    assert target("https://☕.example/", allow=None, deny=()).host == "xn--53h.example"
    with pytest.raises(WebError, match="deny_hosts"):
        target("https://FASS.example/", allow=None, deny=("fass.example",))


@pytest.mark.parametrize("sign", [chr(code) for code in range(128)])
def test_a_host_is_contacted_as_rules_and_people_read_it(sign: str) -> None:
    """Else a resolver decodes it (``ev\\il``, ``e\\118il``), and a rule for ``evil.example`` does not hold."""
    written = f"ev{sign}il.example"
    try:
        host = host_name(written)
    except ValueError:
        assert not sign.isalnum()
        assert sign not in "-_."
    else:
        assert host == written.lower()
        assert target(f"http://{written}/", allow=None, deny=()).host == host
        assert matches(host, written)


@pytest.mark.parametrize(
    "written",
    [
        "", ".", "a..b", ".a", "a..", "a\\", "e\\118il", "e%76il", "a b", "1.2.3.4.5", "1.2.3.256", "a.1", "4294967296",
        "08.1.1.1", "[a.example]", "[v1.a]", "fe80::1%eth0", "a.example:80",
    ],
)  # fmt: skip
def test_what_is_no_name_of_a_host_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        host_name(written)
    with pytest.raises(WebError):
        target(f"http://{written if ':' not in written else f'[{written}]'}/", allow=None, deny=())


@pytest.mark.parametrize(
    "written",
    [
        "93.184.216.34", "1572395042", "0x5db8d822", "93.12113954", "0135.184.216.34", "９３.184.216.34.",
        "[::ffff:93.184.216.34]",
    ],
)  # fmt: skip
def test_an_ip_address_has_one_spelling(written: str) -> None:
    assert target(f"http://{written}/", allow=("93.184.216.34",), deny=()).url == "http://93.184.216.34/"
    assert matches("93.184.216.34", written)
    with pytest.raises(WebError, match="deny_hosts"):
        target("http://[2001:DB8:0:0::1]/", allow=None, deny=("2001:db8::1",))


def test_a_pattern_of_subdomains_means_a_whole_name() -> None:
    assert matches("a.example.com", "*.example.com")
    assert not matches("example.com", "*.example.com")
    assert not matches("evilexample.com", "*.example.com")
    assert matches("EXAMPLE.com.", "example.com")
    assert matches("xn--bcher-kva.example", "Bücher.example")
    assert matches("a.xn--bcher-kva.example", "*.bücher.example")
    assert matches("anything.example", "*")


def page(data: bytes, content_type: str) -> str:
    return page_text(Fetched("https://a.example/", 200, content_type, data, True))


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        ("äöü 你好".encode(), "text/plain; charset=utf-8"),
        ("äöü".encode("latin-1"), "text/plain; charset=iso-8859-1"),
        ("äöü 你好".encode("utf-16"), "text/plain"),
        ("<meta charset='gb18030'><p>你好</p>".encode("gb18030"), "text/html"),
        (
            "Grüße aus Köln: das Wetter ist schön, die Bäume blühen. Überall äöü.".encode("cp1252"),
            "text/plain",
        ),
        ("今天天气很好，我们去公园散步。你好，世界。".encode("gb18030"), "text/plain"),
        ("<meta charset=utf8><p>你好</p>".encode(), "text/html; charset=nonsense"),
        ("<script charset=gbk src=x></script><meta charset=utf-8><p>äöü".encode(), "text/html"),
        ("<a href='?charset=gbk'>x</a><p>äöü 你好 und mehr".encode(), "text/html"),
        ("<meta http-equiv=Content-Type content='text/html; charset=UTF-16'><p>äöü".encode(), "text/html"),
        ("<?xml version='1.0' encoding='gb2312'?><p>你好</p>".encode("gb2312"), "application/xhtml+xml"),
        ("<p>你好，朱镕基 囧".encode("gbk"), "text/html; charset=gb2312"),
        ("äöü".encode(), "text/plain; charset=hex"),
        ("äöü".encode(), "text/plain; charset=idna"),
        ("äöü".encode(), "text/plain; charset=punycode"),
        ("äöü".encode(), "text/plain; charset=undefined"),
        ("<meta charset=raw-unicode-escape><p>äöü".encode(), "text/html"),
    ],
)
def test_the_charset_is_found(data: bytes, content_type: str) -> None:
    text = page(data, content_type)
    assert "äöü" in text or "你好" in text


@pytest.mark.parametrize(
    ("text", "written", "named"),
    [
        ("朱镕基", "gbk", "gb2312"),
        ("①Ⅱ㈱", "cp932", "Shift_JIS"),
        ("①", "cp932", "x-sjis"),
        ("똠방각하", "cp949", "EUC-KR"),
        ("“x”", "cp1254", "ISO-8859-9"),
        ("€", "cp1252", "us-ascii"),
        ("彽啫", "big5hkscs", "Big5"),
    ],
)
def test_a_charset_is_read_as_browsers_read_it(text: str, written: str, named: str) -> None:
    assert page(text.encode(written), f"text/plain; charset={named}") == text


def test_what_is_no_text_is_refused() -> None:
    for data, kind in ((b"\x89PNG", "image/png"), (b"%PDF", "application/pdf"), (b"a\0b", "text/plain")):
        with pytest.raises(WebError):
            page(data, kind)


def test_a_pdf_and_a_word_document_are_read_with_their_pages() -> None:
    text = page(pdf("The first page.", "The second page."), "application/pdf")
    assert "[page 2]\nThe second page." in text
    assert page(pdf("The first page.", "The second page."), "application/octet-stream") == text
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    assert "# Voyage" in page(docx(), word)


def test_a_word_of_a_page_of_which_a_part_is_marked_stays_whole() -> None:
    assert (
        page(b"<p><em>shop</em>-Secret-<b>abc</b>123 is <b>bold</b></p>", "text/html")
        == "shop-Secret-abc123 is **bold**"
    )


def test_a_document_that_cannot_be_read_says_why() -> None:
    with pytest.raises(WebError, match="damaged"):
        page(b"%PDF and nothing", "application/pdf")
    cut = Fetched("https://a.example/a.pdf", 200, "application/pdf", pdf("x")[:200], False)
    with pytest.raises(WebError, match="more than 200 bytes") as caught:
        page_text(cut)
    assert "max_bytes" in str(caught.value.remedy)


def test_without_the_extra_a_pdf_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(WebError, match="pypdf") as caught:
        page(pdf("x"), "application/pdf")
    assert "zeus-runtime[kb]" in str(caught.value.remedy)


def test_json_stays_as_it_is() -> None:
    assert page(b'{"a": 1}', "application/vnd.api+json") == '{"a": 1}'


def test_what_only_a_browser_needs_is_left_out() -> None:
    text = as_markdown(
        b"<head><style>p{}</style></head><body><script>steal()</script><p>Text</p><img src='data:x'><form>f</form>"
        b"<pre><code>a  b\n c</code></pre><table><tr><th>H</th></tr><tr><td>1</td></tr></table></body>"
    )
    assert "steal" not in text
    assert "p{}" not in text
    assert "data:x" not in text
    assert "```\na  b\n c\n```" in text
    assert "| H |" in text


def test_a_page_nested_deeper_than_anybody_writes_is_read_all_the_same() -> None:
    assert "deep" in as_markdown(b"<div>" * 5_000 + b"deep" + b"</div>" * 5_000)


def test_a_page_that_takes_too_long_ends_by_the_clock() -> None:
    # No parser written in Python makes a million elements in half a second, whatever its version.
    endless = Fetched("https://a.example/", 200, "text/html", b"<p>" * 1_000_000, True)
    with pytest.raises(WebError, match="takes longer than 0\\.5 seconds"):
        page_text(endless, seconds=0.5)
