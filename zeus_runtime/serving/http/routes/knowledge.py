"""The knowledge bases of the caller and of the caller's project: listed, and searched with citations."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request

from zeus_runtime.errors import NotFoundError
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import AgentName, Reader, service_of

if TYPE_CHECKING:
    from zeus_runtime.knowledge.records import BaseInfo
    from zeus_runtime.knowledge.service import KnowledgeService

router = APIRouter(prefix="/knowledge", tags=["knowledge"], route_class=RevalidatedRoute)


@router.get("")
async def bases(request: Request, caller: Reader, agent: AgentName = None) -> list[dict[str, Any]]:
    """The knowledge bases; ``linked`` ones are those that the agent itself searches."""
    owner = service_of(request).agent(caller, agent).of(caller.owner)
    return [owner.masked(await _told(owner.knowledge, each)) for each in await owner.knowledge.bases()]


@router.get("/{base}")
async def one(request: Request, caller: Reader, base: str, agent: AgentName = None) -> dict[str, Any]:
    """A knowledge base and its documents: of each its chunks, its size, and whether all of it can be found."""
    owner = service_of(request).agent(caller, agent).of(caller.owner)
    documents = await owner.knowledge.documents(base)
    info = await owner.knowledge.base(base)
    assert info is not None, "it has documents"
    told = await _told(owner.knowledge, info)
    return dict(owner.masked({**told, "files": [each._asdict() for each in documents]}))


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

    Files whose reading needs an approval are left out. ``notices`` say what could not be searched.
    """
    owner = service_of(request).agent(caller, agent).of(caller.owner)
    if await owner.knowledge.base(base) is None:
        raise NotFoundError(f"there is no knowledge base {base!r}")
    found = await owner.knowledge.search(query, names=[base], top_k=k)
    hits = [{**asdict(each), "citation": each.citation} for each in found.hits]
    return dict(owner.masked({"hits": hits, "notices": list(found.notices)}))


async def _told(knowledge: KnowledgeService, base: BaseInfo) -> dict[str, Any]:
    """A base as a caller sees it: files that the rules deny are not counted."""
    return {
        **base.as_json(),
        **(await knowledge.readable(base))._asdict(),
        "linked": base.name in knowledge.linked,
    }
