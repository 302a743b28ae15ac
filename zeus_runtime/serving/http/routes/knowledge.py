"""The knowledge bases of the caller and of the caller's project: listed, and searched with citations."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from zeus_runtime.errors import NotFoundError
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import AgentName, Reader, service_of

router = APIRouter(prefix="/knowledge", tags=["knowledge"], route_class=RevalidatedRoute)


@router.get("")
async def bases(request: Request, caller: Reader, agent: AgentName = None) -> list[dict[str, Any]]:
    """The knowledge bases; ``linked`` ones are those that the agent itself searches."""
    owner = service_of(request).agent(caller, agent).of(caller.owner)
    linked = owner.knowledge.linked
    found = await owner.knowledge.bases()
    return [owner.masked({**each.as_json(), "linked": each.name in linked}) for each in found]


@router.get("/{base}")
async def one(request: Request, caller: Reader, base: str, agent: AgentName = None) -> dict[str, Any]:
    """A knowledge base and its documents: of each its chunks, its size, and whether all of it can be found."""
    owner = service_of(request).agent(caller, agent).of(caller.owner)
    documents = await owner.knowledge.documents(base)
    info = await owner.knowledge.base(base)
    assert info is not None, "it has documents"
    told = {
        **info.as_json(),
        "linked": base in owner.knowledge.linked,
        "sources": list((await owner.knowledge.readable(base)).sources),
        "files": [each._asdict() for each in documents],
    }
    return dict(owner.masked(told))


@router.get("/{base}/search")
async def search(
    request: Request,
    caller: Reader,
    base: str,
    query: Annotated[str, Query(min_length=1, max_length=2_000)],
    agent: AgentName = None,
    k: Annotated[int, Query(ge=1, le=100, description="The most passages.")] = 5,
) -> dict[str, Any]:
    """The passages that fit a text best, by meaning and by words, each with its source, its headings and its page.

    ``notices`` say what could not be searched.
    """
    owner = service_of(request).agent(caller, agent).of(caller.owner)
    if await owner.knowledge.base(base) is None:
        raise NotFoundError(f"there is no knowledge base {base!r}")
    found = await owner.knowledge.search(query, names=[base], top_k=k)
    hits = [{**asdict(each), "citation": each.citation} for each in found.hits]
    return dict(owner.masked({"hits": hits, "notices": list(found.notices)}))
