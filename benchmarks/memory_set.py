"""How the questions of ``benchmarks.memory_quality`` were made: ``python -m benchmarks.memory_set TRAJECTORIES OWN…``.

Two sources: sentences and questions written for the purpose (``memory | question | question``, or a sentence alone,
which is there to distract), and facts of the passengers in recorded airline sessions (tau-bench, MIT), asked for in
other words. What passengers said themselves is there to distract too. Nothing of it was changed after a result was seen.
``data/memory_topics.jsonl`` was written by hand; ``data/README.md`` says how.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "memory_questions.jsonl"
TOPICS = DATA.with_name("memory_topics.jsonl")
_UTTERANCES = 500
_CITIES = dict(
    each.split("=")
    for each in (
        "ATL=Atlanta BOS=Boston CLT=Charlotte DEN=Denver DFW=Dallas DTW=Detroit EWR=Newark IAH=Houston JFK=New-York "
        "LAS=Las-Vegas LAX=Los-Angeles LGA=New-York MCO=Orlando MIA=Miami MSP=Minneapolis ORD=Chicago PHL=Philadelphia "
        "PHX=Phoenix SEA=Seattle SFO=San-Francisco"
    ).split()
)
# ruff: noqa: E501
_ABOUT_PERSONS = (
    ("{name} lives at {street} in {city}", "Where is {first}'s home?"),
    ("{name} was born on {born}", "When is {first}'s birthday?"),
    ("{name} is a {level} member of the airline's loyalty programme", "What status does {first} have as a frequent flyer?"),
    ("{name} travels with {companions}", "Who comes along on {first}'s trips?"),
    ("{name} pays by {payment}", "How does {first} settle the bill?"),
)  # fmt: skip
_ABOUT_TRIPS = (
    ("{name} booked a {kind} flight from {start} to {end} in {cabin} leaving on {date}", "On which day does {first} depart for {end}?"),
    ("{name} flies {kind} from {start} to {end} on {date} in {cabin} class with {bags} checked bags", "How much luggage does {first} take to {end}?"),
    ("{name} has a reservation {code} from {start} to {end} on {date}, {cabin}, {insurance} travel insurance", "Is {first} covered on the journey to {end}?"),
)  # fmt: skip


def recorded(file: Path) -> Iterator[Any]:
    """The messages of the airline sessions."""
    for line in file.read_text("utf-8").splitlines():
        session = json.loads(line)
        if session["source"].startswith("tau-bench"):
            yield from session["messages"]


def said(file: Path) -> list[str]:
    """What users and models said in a few sentences, in all the recorded sessions."""
    found: dict[str, None] = {}
    for line in file.read_text("utf-8").splitlines():
        for message in json.loads(line)["messages"]:
            content = " ".join(str(message.get("content") or "").split())
            if message["role"] in ("user", "assistant") and 30 < len(content) < 240 and "###" not in content:
                found[content] = None
    return list(found)


def facts(file: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Memories with their questions, and what passengers said."""
    persons: dict[str, Any] = {}
    trips: dict[str, Any] = {}
    said: dict[str, None] = {}
    for message in recorded(file):
        content = str(message.get("content") or "")
        if message["role"] == "user" and 30 < len(content) < 240 and "###" not in content:
            said[" ".join(content.split())] = None
        if message["role"] != "tool" or not content.startswith("{"):
            continue
        try:
            found = json.loads(content)
        except ValueError:
            continue
        if "membership" in found:
            persons[_key(found["email"])] = found
        elif "reservation_id" in found and "cabin" in found:
            trips[found["reservation_id"]] = found
    memories = [each for key in sorted(persons) for each in _person(persons[key])]
    for number, code in enumerate(sorted(trips)):
        memories += _trip(trips[code], number)
    return memories, list(said)


def _key(text: str) -> str:
    """``omar.davis7857@example.com`` and ``omar_davis_3817`` to the same."""
    return "_".join(re.findall("[a-z]+", text.split("@")[0]))


def _person(person: Any) -> Iterator[dict[str, Any]]:
    methods = person["payment_methods"].values()
    cards = [f"{each['brand']} card ending in {each['last_four']}" for each in methods if "brand" in each]
    values = {
        "name": " ".join(person["name"].values()),
        "first": person["name"]["first_name"],
        "street": person["address"]["address1"],
        "city": person["address"]["city"],
        "born": person["dob"],
        "level": person["membership"],
        "companions": " and ".join(
            f"{each['first_name']} {each['last_name']}" for each in person["saved_passengers"]
        ),
        "payment": cards[0] if cards else "",
    }
    for memory, question in _ABOUT_PERSONS:
        if all(values[name] for name in re.findall(r"{(\w+)}", memory)):
            yield _asked(memory.format(**values), "airline", [question.format(**values)])


def _trip(trip: Any, number: int) -> Iterator[dict[str, Any]]:
    names = _key(trip["user_id"]).split("_")
    values = {
        "name": " ".join(names).title(),
        "first": names[0].title(),
        "kind": trip["flight_type"].replace("_", "-"),
        "start": _CITIES.get(trip["origin"], trip["origin"]).replace("-", " "),
        "end": _CITIES.get(trip["destination"], trip["destination"]).replace("-", " "),
        "cabin": trip["cabin"].replace("_", " "),
        "date": trip["flights"][0]["date"],
        "bags": trip["total_baggages"],
        "code": trip["reservation_id"],
        "insurance": "with" if trip["insurance"] == "yes" else "without",
    }
    memory, question = _ABOUT_TRIPS[number % len(_ABOUT_TRIPS)]
    yield _asked(memory.format(**values), "airline", [question.format(**values)])


def _asked(memory: str, group: str, questions: list[str]) -> dict[str, Any]:
    return {"memory": memory, "group": group, "questions": questions}


def own(file: Path) -> Iterator[dict[str, Any]]:
    """The memories of a file, of which the name's end after ``_`` is the group."""
    group = file.stem.partition("_")[2] or "English"
    for line in file.read_text("utf-8").splitlines():
        memory, *questions = line.split("|")
        yield _asked(memory, group if questions else "", questions)


def main() -> None:
    trajectories, *files = map(Path, sys.argv[1:])
    memories, said = facts(trajectories)
    for file in files:
        memories += own(file)
    random.Random(7).shuffle(said)
    memories += [_asked(each, "", []) for each in said[:_UTTERANCES]]
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in memories), "utf-8")


if __name__ == "__main__":
    main()
