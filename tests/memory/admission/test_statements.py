"""How often a new statement meets an older one as it should, through the whole gate with the bundled embedding model.

``data/statements.jsonl`` has what was looked at while rules were mended, ``held_out``, written after that, and
``written_before_looking`` and ``written_before_rewriting``: no rule was mended for these. No pair says how near its
texts are: the model decides, and what it does not find near is told by its form.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from zeus_plugins.embeddings.static.embedder import StaticEmbedder

from tests.support.memory import service
from zeus_runtime.memory.admission.comparison import compare
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.service import MemoryService

PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "statements.jsonl").read_text(encoding="utf-8").splitlines()
]


async def test_a_stale_statement_that_stays_is_linked_with_the_one_that_changes_it(tmp_path: Path) -> None:
    memory = service(tmp_path, embedder=StaticEmbedder())
    alone = []
    changes = [
        pair for pair in PAIRS if (pair["part"], pair["label"]) == ("written_before_looking", "superseded")
    ]
    for number, pair in enumerate(changes):
        mine = memory.for_caller(Caller(f"user{number}"))
        await mine.add_explicit_memory(pair["old"])
        saved = await mine.add_explicit_memory(pair["new"])
        if saved.outcome == "stored" and not saved.near:
            alone.append(pair["old"])
    await memory.aclose()
    assert alone == ["The user works as a nurse in Leipzig"]


async def test_of_what_people_say_in_turn_nothing_is_replaced(tmp_path: Path) -> None:
    file = Path(__file__).parents[3] / "benchmarks" / "data" / "memory_conversations.jsonl"
    lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    turns = list(dict.fromkeys(text for line in lines for _, text in line.get("turns", ())))
    assert len(turns) > 400
    memory = service(tmp_path, embedder=StaticEmbedder())
    for text in turns:
        assert (await memory.add_explicit_memory(text)).outcome != "superseded", text
    await memory.aclose()


async def outcome(memory: MemoryService, old: str, new: str) -> str:
    """What becomes of ``new`` beside ``old`` alone."""
    assert (await memory.add_explicit_memory(old)).outcome == "stored", old
    return (await memory.add_explicit_memory(new)).outcome


async def table(folder: Path, part: str) -> Counter[tuple[str, str]]:
    memory = service(folder, embedder=StaticEmbedder())
    found: Counter[tuple[str, str]] = Counter()
    for number, pair in enumerate(each for each in PAIRS if each["part"] == part):
        became = await outcome(memory.for_caller(Caller(f"user{number}")), pair["old"], pair["new"])
        found[pair["label"], "different" if became == "stored" else became] += 1
    await memory.aclose()
    return found


@pytest.mark.parametrize(
    ("part", "superseded", "different", "duplicate"),
    [
        ("looked_at", 0.73, 1.0, 0.92),
        ("held_out", 0.9, 1.0, 1.0),
        ("added_held_out", 1.0, 1.0, 0.75),
        ("sides_held_out", 0.83, 1.0, 1.0),
        ("written_before_looking", 0.73, 1.0, 0.7),
        ("written_before_rewriting", 0.7, 1.0, 0.7),
    ],
)
async def test_statements_meet_older_ones_as_they_should(
    tmp_path: Path, part: str, superseded: float, different: float, duplicate: float
) -> None:
    found = await table(tmp_path, part)
    for label, least in (("superseded", superseded), ("different", different), ("duplicate", duplicate)):
        asked = sum(number for (wanted, _), number in found.items() if wanted == label)
        assert found[label, label] / asked >= least, (label, found)
    assert found["superseded", "duplicate"] == found["different", "duplicate"] == 0, "nothing new is lost"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The company has 40 employees", "The company has 3 offices"),
        ("The server runs Alpine 3.20", "The server has 64 GB of RAM"),
        ("The report of May is late", "The report of April is done"),
        ("总结要用法语写", "总结要附链接"),
        ("用戶對花生過敏", "用戶對青黴素過敏"),
        ("会议在周五", "会议在三楼"),
        ("团队在杭州", "团队在招人"),
        ("团队有十二个人", "团队在招人"),
        ("ユーザーは東京に住んでいる", "ユーザーは犬を飼っている"),
    ],
)
async def test_what_is_said_of_something_else_stays_beside_it(tmp_path: Path, old: str, new: str) -> None:
    memory = service(tmp_path, embedder=StaticEmbedder())
    assert await outcome(memory, old, new) == "stored"
    await memory.aclose()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The landlord is Mr. Osei", "The landlord is now Ms. Duarte"),
        ("The user's cat is called Mimi", "The user's cat is called Luna"),
        ("The team's mascot is a fox", "The team's mascot was changed to an owl"),
        ("The budget is $12,000", "The budget was cut to $9,500"),
        ("The user drives a Skoda", "The user sold the Skoda and drives a Volvo"),
        ("Standup starts at 9:15", "Standup has been pushed back to 9:45"),
        ("The user lives in Lyon", "The user now lives in Nantes"),
        ("The user lives in Lyon", "The user lives in Nantes"),
        ("Lives in Lyon", "I am now living in Nantes"),
        ("The user works at Google", "The user works at Meta"),
        ("The limit is 3", "The limit was set to 5"),
        ("The user lives in Lyon", "The user has moved to Nantes"),
        ("The user works at Siemens", "The user started working at Bosch"),
        ("Der Nutzer lebt in Graz", "Der Nutzer lebt jetzt in Linz"),
        ("Die Sitzung ist am Montag", "Die Sitzung ist am Freitag"),
        ("Der Vertrag endet im März", "Der Vertrag endet im Oktober"),
        ("Der Nutzer raucht", "Der Nutzer raucht nicht"),
        ("用户体重70公斤", "用户体重66公斤"),
        ("发布定在五月三日", "发布推迟到五月十七日"),
        ("用户住在北京", "用户住在上海"),
        ("用户住在北京", "用户现在住在哈尔滨"),
        ("用戶住在台北", "用戶住在高雄"),
        ("用戶喜歡喝咖啡", "用戶不喜歡喝咖啡"),
    ],
)
async def test_a_change_that_is_told_replaces_what_was(tmp_path: Path, old: str, new: str) -> None:
    memory = service(tmp_path, embedder=StaticEmbedder())
    assert await outcome(memory, old, new) == "superseded"
    await memory.aclose()


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user's left eye is -2.5", "The user's right eye is -3.0"),
        ("The left headlight costs 40.5 euros", "The right headlight costs 42.5 euros"),
        ("The meeting is on Friday", "The meeting is at 10:00"),
        ("The user has an appointment on Monday at 10:00", "The user has an appointment on Tuesday at 15:00"),
        ("There is a party on 3 May", "There is a party on 5 June in Ulm"),
        ("The user likes Emma's cooking", "The user likes Noah's cooking"),
        ("健身房6点开门", "游泳池8点开门"),
        ("用户的狗5岁", "用户的猫3岁"),
        ("咖啡30元一杯", "奶茶20元一杯"),
        ("2023年收入200万元", "2024年收入300万元"),
        ("周一和安娜开会", "周四和鲍勃开会"),
        ("用户有三个孩子", "用户有三只猫"),
        ("公司有40名员工", "公司有3个办公室"),
        ("妈妈68岁了", "妈妈的手机号是138000"),
        ("会议在周五", "会议在三楼"),
    ],
)
def test_what_the_form_shows_to_be_of_something_else_is_kept_however_near_it_is(
    one: str, other: str, near: bool
) -> None:
    assert compare(other, one, near=near).decision == "different"
    assert compare(one, other, near=near).decision == "different"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Rent is due on the 1st", "The rent of the flat is 900"),
        ("The report is due on Friday", "The report of May is late"),
        ("服务器运行Fedora 40", "服务器有8个核心"),
        ("用户有一只叫豆豆的狗", "用户有一只叫咪咪的猫"),
    ],
)
def test_a_value_of_something_else_replaces_none_that_shares_a_word_with_it(one: str, other: str) -> None:
    assert compare(other, one, near=False).decision == "different"
    assert compare(one, other, near=False).decision == "different"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The fee is 2.5 euros", "The fee is not 2.5 but 3.5 euros"),
        ("The price is 2.5", "The price moved from 2.5 to 3.5"),
        ("用户有两只猫", "用户有三只猫"),
        ("用户体重80公斤", "用户体重76公斤"),
        ("会议3点开始", "会议4点开始"),
        ("例会周三开", "例会周四开"),
        ("周会每周一上午9点", "周会每周二上午10点"),
        ("房租900元", "房租950元"),
        ("妈妈68岁", "妈妈69岁了"),
    ],
)
def test_a_value_in_its_own_place_is_replaced(old: str, new: str) -> None:
    assert compare(new, old, near=False).decision == "superseded"


ENTRIES = {
    "number in another role": [
        f"Guest {at} sleeps in room {at * 7} near tower {at % 20}" for at in range(60)
    ],
    "number of another place": [f"Boat {at} lies at pier {at * 3} of harbour {at % 15}" for at in range(60)],
    "number before": [f"Sensor {at} reads {20 + at % 7} degrees" for at in range(60)],
    "number after": [f"Chapter {at} has {10 + at % 20} pages" for at in range(60)],
    "Chinese label": [f"{at}号桌坐着{at % 9 + 1}位客人" for at in range(1, 60)],
    "Chinese number": [f"订单{at}的金额是{at * 7}元" for at in range(1, 60)],
}


@pytest.mark.parametrize("kind", ENTRIES)
async def test_entries_of_a_list_all_stay_whatever_numbers_they_share(tmp_path: Path, kind: str) -> None:
    memory = service(tmp_path, embedder=StaticEmbedder())
    replaced = [
        (text, [each.content for each in saved.all_replaced])
        for text in ENTRIES[kind]
        if (saved := await memory.add_explicit_memory(text)).outcome != "stored"
    ]
    await memory.aclose()
    assert replaced == []


async def test_a_changed_entry_replaces_its_own_alone(tmp_path: Path) -> None:
    memory = service(tmp_path, embedder=StaticEmbedder())
    for text in ENTRIES["number in another role"]:
        await memory.add_explicit_memory(text)
    saved = await memory.add_explicit_memory("Guest 14 sleeps in room 99 near tower 14")
    await memory.aclose()
    assert [each.content for each in saved.all_replaced] == ["Guest 14 sleeps in room 98 near tower 14"]


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The user uses Postgres", "The user also uses Redis"),
        ("The backup runs on Monday", "The backup runs on Friday as well"),
        ("The backup runs on Monday", "The backup runs on Friday too."),
        ("The office opens at 9:00", "The office also opens at 14:00"),
        ("The user's editor is Vim", "The user's other editor is Emacs"),
        ("The user has a daughter named Mia", "The user has another daughter named Zoe"),
        ("项目使用Postgres", "项目还使用Redis"),
        ("备份在周一运行", "备份也在周五运行"),
        ("The user works at Google", "The user worked at Meta"),
        ("The user works at Google", "The user previously worked at Meta"),
        ("The user's boss is Anna", "The user's boss was Ben"),
        ("The project is written in Rust", "The project was written in Perl"),
        ("The user uses Vim", "The user is considering to switch to Emacs"),
        ("The meeting is on Thursday", "The meeting might be moved to Friday"),
        ("The user lives in Porto", "The user would like to live in Braga"),
    ],
)
def test_what_is_added_was_before_or_is_planned_replaces_nothing(old: str, new: str, near: bool) -> None:
    assert compare(new, old, near=near).decision == "different"


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user's cat is 3 years old", "The user's cat is black"),
        ("The user's cat is black", "The user's cat is lazy"),
        ("The user's sister is a nurse", "The user's sister is pregnant"),
        ("The user's car is red", "The user's car is a Skoda"),
        ("The user's boss is Anna", "The user's boss is strict"),
        ("The API is slow", "The API is versioned"),
        ("The project is written in Rust", "The project is licensed under MIT"),
        ("The user's daughter is called Mia", "The user's daughter is called Zoe"),
        ("The user's colleague is Ben", "The user's colleague is Ines"),
        ("The rate limit is 100 requests", "The rate limit of partners is 1,000 requests"),
        ("A booking can be cancelled until noon", "A booking of groups can be cancelled until Friday"),
        ("The login is mandatory for members", "The login is mandatory for guests"),
        ("The budget for 2026 is 85,000 euros", "The budget for 2025 is 74,000 euros"),
    ],
)
def test_two_sides_of_one_thing_stand_beside_each_other(one: str, other: str, near: bool) -> None:
    knowing = StaticEmbedder().of_a_kind
    assert compare(one, other, near=near, of_a_kind=knowing).decision == "different"
    assert compare(other, one, near=near, of_a_kind=knowing).decision == "different"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The user's cat is black", "The user's cat is white"),
        ("The user's sister is a nurse", "The user's sister is a doctor"),
        ("The user's laptop is a ThinkPad", "The user's laptop is a MacBook"),
        ("The user's favourite colour is teal", "The user's favourite colour is orange"),
        ("The user's email is anna@acme.io", "The user's email is anna@zeus.dev"),
        ("The user's boss is Anna", "The user's boss is Ben"),
        ("The status is green", "The status is now a mess"),
    ],
)
def test_another_value_of_one_kind_is_a_change(old: str, new: str) -> None:
    assert compare(new, old, near=False, of_a_kind=StaticEmbedder().of_a_kind).decision == "superseded"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The room is too cold", "The room is too warm"),
        ("Also, the deadline is May 3", "Also, the deadline is May 5"),
        ("The user's other editor is Emacs", "The user's other editor is Helix"),
        ("The limit is 3", "The limit was set to 5"),
        ("The user worked at Google", "The user worked at Meta for 3 years"),
    ],
)
def test_a_word_like_those_that_adds_nothing_changes_nothing(old: str, new: str) -> None:
    assert compare(new, old, near=True).reason not in ("beside each other", "past", "planned")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The user lives in Lyon", "The user lives in a flat"),
        ("The user lived in Lyon", "The user moved to Nantes"),
        ("Anna lives in Lyon", "Ben moved to Nantes"),
        ("Anna lebt in Graz", "Paul lebt in Linz"),
        ("The user lives in Lyon", "The user lives in Nantes at weekends"),
        ("The user lives in Lyon", "The user will live in Nantes next year"),
        ("The user works at Google", "The user works at night"),
        ("Anna lives in Lyon", "Ben lives in Nantes"),
        ("The user has a friend who lives in Lyon", "The user has a friend who lives in Nantes"),
    ],
)
async def test_another_name_is_a_change_only_where_there_can_be_but_one(
    tmp_path: Path, old: str, new: str
) -> None:
    memory = service(tmp_path, embedder=StaticEmbedder())
    assert await outcome(memory, old, new) == "stored"
    await memory.aclose()


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The user teaches three classes of year 10", "The user teaches one class of year 12"),
        ("The service was originally written in Perl", "The service was rewritten from Go to Rust"),
        ("The service is written in Go", "The service was initially written in Perl"),
        ("The docs are built with Hugo", "The docs are published at docs.example.com"),
        ("The office is open from 9:00", "The office is open until 18:00"),
        ("The user has been driving for Acme since 2016", "The user drives for Acme until June"),
        ("The library is open source", "The library is abandoned"),
        ("用户的女儿四岁", "豆豆四岁了"),
    ],
)
def test_what_is_said_of_another_class_time_or_work_stands_beside(old: str, new: str, near: bool) -> None:
    assert compare(new, old, near=near).decision == "different"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The user teaches four classes of year 10", "The user's year 12 class has 19 students"),
        ("The user goes by bike now", "The user sold the folding bike"),
        ("The user is a retired bridge engineer", "The user retired in 2022"),
        ("The studio was founded by Mees and Farah", "The creative director is Farah, not Mees"),
        ("店长是成都人", "店长换成了小何"),
    ],
)
def test_texts_that_are_not_near_share_a_word_and_no_more(old: str, new: str) -> None:
    assert compare(new, old, near=False).decision == "different"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The service is written in Go", "The service was rewritten from Go to Rust"),
        ("The licence of the code is EUPL", "The licence of the code is Apache 2.0"),
        ("The user's laptop is a Framework 13", "The user's laptop is a ThinkPad X1"),
        ("Planning takes place every other Monday", "Planning now takes place every Monday"),
        ("The user uses Google Maps for navigation", "The user uses Waze for navigation"),
        ("The office is in room 12 on floor 3", "The office is in room 40 on floor 5"),
        ("店铺的租金是每月一万二千元", "店铺的租金涨到每月一万三千元"),
        ("持续集成用Jenkins", "持续集成用GitHub Actions"),
        ("覆盖率是百分之四十五", "覆盖率提高到百分之六十"),
        ("我的显示器是二十七寸", "我的显示器是三十二寸"),
    ],
)
def test_a_change_is_told_by_its_form_however_far_a_model_finds_it(old: str, new: str) -> None:
    assert compare(new, old, near=False, of_a_kind=StaticEmbedder().of_a_kind).decision == "superseded"
