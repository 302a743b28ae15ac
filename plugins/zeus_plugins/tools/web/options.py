"""The YAML options of the web tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from zeus_runtime.plugin import Doc, Executes, Maximum, Minimum, Misfit, Ref, RefTo, Surroundings, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``web``. A host is a name (``docs.python.org``), or ``*.python.org`` for all names below it."""

    search: Annotated[
        Ref | None,
        RefTo("search"),
        Doc("The search component; null: tavily if TAVILY_API_KEY is set, else duckduckgo."),
    ] = None
    max_results: Annotated[int, Doc("Most results of one search."), Minimum(1), Maximum(50)] = 5
    allow_hosts: Annotated[
        tuple[str, ...] | None, Doc("The only hosts that pages are fetched from; null for all.")
    ] = None
    deny_hosts: Annotated[tuple[str, ...], Doc("Hosts that pages are never fetched from.")] = ()
    allow_private: Annotated[
        tuple[Annotated[str, Executes(by_name=True)], ...],
        Doc(
            "Addresses that pages are fetched from although they are not public: a network (10.1.0.0/16) or an address "
            "with a port (127.0.0.1:8080)."
        ),
    ] = ()
    timeout_seconds: Annotated[
        float,
        Doc(
            "Time limit of one fetch, redirects included, in seconds; parsing the page may take as long again."
        ),
        Minimum(0.01),
    ] = 30.0
    max_bytes: Annotated[
        int, Doc("Most bytes of one page, decompressed; the rest is not read."), Minimum(1_000)
    ] = 5_000_000
    max_redirects: Annotated[int, Doc("Most redirects that one fetch follows."), Minimum(0)] = 5
    max_result_chars: Annotated[
        int, Doc("Most characters of a page that one call returns; the next call can continue."), Minimum(500)
    ] = 30_000
    user_agent: Annotated[str, Doc("The User-Agent header that servers get.")] = (
        "Mozilla/5.0 (compatible; zeus-runtime)"
    )

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report private addresses that do not parse, host rules that match no host, and an invalid header."""
        from zeus_plugins.tools.web.addresses import parse_allowed
        from zeus_plugins.tools.web.urls import pattern_problem

        for key, patterns in (("allow_hosts", self.allow_hosts or ()), ("deny_hosts", self.deny_hosts)):
            for index, pattern in enumerate(patterns):
                problem = pattern_problem(pattern)
                if problem is not None:
                    yield Misfit(
                        (key, index),
                        f"{pattern!r}: {problem}; the rule would match nothing",
                        "write docs.python.org, or *.python.org for all names below it",
                        "wrong-host",
                    )

        if not (self.user_agent.isascii() and self.user_agent.isprintable()):
            yield Misfit(
                ("user_agent",), "this is not a valid header value", "write one line of ASCII", "wrong-header"
            )

        for index, text in enumerate(self.allow_private):
            try:
                parse_allowed(text)
            except ValueError as error:
                yield Misfit(
                    ("allow_private", index),
                    f"{text!r}: {error}",
                    "write 10.1.0.0/16 or 127.0.0.1:8080",
                    "wrong-address",
                )
