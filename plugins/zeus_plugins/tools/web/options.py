"""What the YAML can say of the web tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, Misfit, Ref, RefTo, Surroundings, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``web``. A host is a name (``docs.python.org``), or ``*.python.org`` for all below one."""

    search: Annotated[
        Ref | None,
        RefTo("search"),
        Doc("Who searches; null: tavily where TAVILY_API_KEY is set, else duckduckgo."),
    ] = None
    max_results: Annotated[int, Doc("Results of one search."), Minimum(1), Maximum(50)] = 5
    allow_hosts: Annotated[
        tuple[str, ...] | None, Doc("Only these hosts are fetched from; null for all.")
    ] = None
    deny_hosts: Annotated[tuple[str, ...], Doc("These hosts are never fetched from.")] = ()
    allow_private: Annotated[
        tuple[str, ...],
        Doc(
            "Addresses that are fetched from though they are not public: a network (10.1.0.0/16) or an address with a "
            "port (127.0.0.1:8080)."
        ),
    ] = ()
    timeout_seconds: Annotated[
        float,
        Doc("How long one fetch may take, redirects included, and then as long reading the page."),
        Minimum(0.01),
    ] = 30.0
    max_bytes: Annotated[int, Doc("Bytes of one page, unpacked; the rest is not read."), Minimum(1_000)] = (
        5_000_000
    )
    max_redirects: Annotated[int, Doc("Redirects that one fetch follows."), Minimum(0)] = 5
    max_result_chars: Annotated[
        int, Doc("Characters of a page that one call returns; the next call goes on."), Minimum(500)
    ] = 30_000
    user_agent: Annotated[str, Doc("What servers are told.")] = "Mozilla/5.0 (compatible; zeus-runtime)"

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """What is allowed among private addresses can be read, a rule for hosts fits some host, a header is one."""
        from zeus_plugins.tools.web.addresses import parse_allowed
        from zeus_plugins.tools.web.urls import pattern_problem

        for key, patterns in (("allow_hosts", self.allow_hosts or ()), ("deny_hosts", self.deny_hosts)):
            for index, pattern in enumerate(patterns):
                problem = pattern_problem(pattern)
                if problem is not None:
                    yield Misfit(
                        (key, index),
                        f"{pattern!r}: {problem}; the rule would fit nothing",
                        "write docs.python.org, or *.python.org for all below it",
                        "wrong-host",
                    )

        if not (self.user_agent.isascii() and self.user_agent.isprintable()):
            yield Misfit(
                ("user_agent",), "this cannot stand in a header", "write one line of ASCII", "wrong-header"
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
