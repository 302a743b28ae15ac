"""What a service says of its turns, asked without any package."""

import asyncio
import json
import urllib.request


def _asked(url, token, path):
    request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def _running(url, token):
    sessions = [each["session"] for each in _asked(url, token, "/sessions")]
    runs = [run for each in sessions for run in _asked(url, token, f"/sessions/{each}/runs")]
    return any(each["state"] == "running" and "hang" in each["prompt"] for each in runs)


async def until_one_hangs(url, token):
    """Wait until the service works on a prompt that never ends."""
    while not await asyncio.to_thread(_running, url, token):  # noqa: ASYNC110 - the service has no event for it
        await asyncio.sleep(0.05)


async def given_up(url, token, work):
    """Begin ``work``, which waits for an answer that never comes, and cancel it as a program does."""
    task = asyncio.ensure_future(work)
    await until_one_hangs(url, token)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    while await asyncio.to_thread(_running, url, token):  # noqa: ASYNC110 - the service has no event for it
        await asyncio.sleep(0.05)
