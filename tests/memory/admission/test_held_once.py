"""What somebody has once: another home or boss replaces the former however little the texts have in common.

What is of others, of another time, way or side, or one of several things replaces nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from zeus_plugins.embeddings.static.embedder import StaticEmbedder

from tests.support.memory import service
from zeus_runtime.memory.outcomes import Saved

FILLERS = (
    "我喜欢喝乌龙茶",
    "我每天跑步五公里",
    "回答请用中文",
    "I drink three coffees a day",
    "Keep answers short",
)


async def saved_after(old: str, new: str, folder: Path, *, words_only: bool) -> Saved:
    memory = service(folder, embedder=StaticEmbedder(), words_only=words_only)
    for text in (*FILLERS, old):
        await memory.add_explicit_memory(text)
    saved = await memory.add_explicit_memory(new)
    await memory.aclose()
    return saved


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Lyon", "I live in Nantes"),
        ("My boss is Tom", "My boss is Ann"),
        ("My work email is ann@example.com", "My work email is ann@example.org"),
        ("The train to Paris leaves at 8", "The train to Paris leaves at 9"),
        ("My profession is marine biologist", "My profession is lighthouse keeper"),
        ("Her occupation is nurse", "Her occupation is pilot"),
        ("我住在上海", "我住在北京"),
        ("我住在上海。", "我现在居住在北京"),
        ("我妈妈住在苏州", "我的妈妈住在大连"),
        ("我們住在台北", "我們住在高雄"),
        ("用户住在上海", "我住在北京"),
        ("我的老板是张伟", "我的老板是李娜"),
        ("我老婆叫小红", "我的老婆叫美玲"),
        ("我的职业是医生", "我的职业是律师"),
    ],
)
@pytest.mark.parametrize("words_only", [False, True])
async def test_another_value_replaces_the_former(
    tmp_path: Path, old: str, new: str, *, words_only: bool
) -> None:
    saved = await saved_after(old, new, tmp_path, words_only=words_only)
    assert [each.content for each in saved.all_replaced] == [old]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("我住在上海", "我住在一栋老房子里"),
        ("我住在上海", "我住在公司附近"),
        ("我住在上海", "我妈妈住在苏州"),
        ("我妈妈住在苏州", "我爸爸住在大连"),
        ("我住在上海", "我以前住在北京"),
        ("我住在上海", "我打算住在北京"),
        ("我住在上海", "我周末住在苏州"),
        ("我住在上海", "我喜欢北京"),
        ("我的老板是张伟", "我的老板是个好人"),
        ("我的老板是张伟", "我的老板是上海人"),
        ("我的老板是张伟", "我以前的老板是李娜"),
        ("我的老板是张伟", "他的老板是李娜"),
        ("我老婆叫小红", "我的老婆是医生"),
        ("我的地址是南京路1号", "公司的地址是长安街8号"),
        ("我的邮箱是a@example.com", "我的电话是555-0134"),
        ("My profession is marine biologist", "Her profession is lighthouse keeper"),
        ("My email is ann@example.com", "His email is bob@example.com"),
        ("My email is ann@example.com", "My work email is ann@example.org"),
        ("The user's home address is 3 Mill Lane", "The user's address is 8 High Street"),
        ("My office phone number is 555-0100", "My phone number is 555-0199"),
        ("I live in Lyon", "She lives in Nantes"),
        ("She lives in Nantes", "I live in Lyon"),
        ("We deploy on Fridays", "They deploy on Mondays"),
        ("My flight to Rome is on May 3", "My flight from Rome is on May 9"),
        ("The bus from the airport leaves at 5", "The bus to the airport leaves at 6"),
        ("I live in Lyon", "She no longer lives in Lyon"),
        ("我住在上海浦东", "她住在上海徐汇"),
    ],
)
@pytest.mark.parametrize("words_only", [False, True])
async def test_what_is_of_others_of_another_time_or_another_side_stays(
    tmp_path: Path, old: str, new: str, *, words_only: bool
) -> None:
    saved = await saved_after(old, new, tmp_path, words_only=words_only)
    assert (saved.outcome, saved.all_replaced) == ("stored", ())
