"""The files of ``deploy/``: they fit their formats, name what exists, and a service runs as they say."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.ports import unused_port
from zeus_runtime import __version__
from zeus_runtime.plan.validated import check
from zeus_runtime.serving.http.settings import read_settings
from zeus_runtime.trust.decision import recorded_trust

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
ENVIRON = {"ZEUS_DATABASE_URL": "postgresql://zeus@database/zeus", "ZEUS_PROXY": "10.0.0.2"}


def linted(*command: str | Path) -> str:
    """What a linter of this environment says, once it is content."""
    tool = Path(sys.executable).parent / command[0]
    made = subprocess.run([tool, *command[1:]], capture_output=True, text=True, cwd=ROOT)
    assert made.returncode == 0, made.stdout + made.stderr
    return made.stdout + made.stderr


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def container_file() -> dict[str, str]:
    """The last stage's instructions, lines joined."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text())
    last = text[text.rindex("\nFROM ") :]
    return dict(re.findall(r"^([A-Z]+) (.*)$", last, re.MULTILINE))


def words(instruction: str) -> list[str]:
    return list(yaml.safe_load(container_file()[instruction]))


def container_variables() -> dict[str, str]:
    return dict(each.split("=", 1) for each in container_file()["ENV"].split())


def test_the_home_folder_is_not_in_the_workspace_and_can_be_written() -> None:
    """A command made the `.bash_profile` that the shell of a server or hook executed at its next start."""
    workspace, home = container_file()["WORKDIR"], container_variables()["HOME"]
    assert not Path(home).is_relative_to(workspace)
    assert words("VOLUME") == [workspace, home]
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        assert Path(container_variables()[name]).is_relative_to(workspace)
    compose = [each.split(":")[1] for each in read(DEPLOY / "compose.yaml")["services"]["zeus"]["volumes"]]
    pod = read(KUBERNETES / "deployment.yaml")["spec"]["template"]["spec"]
    mounts = [each["mountPath"] for each in pod["containers"][0]["volumeMounts"]]
    for each in (compose, mounts):
        assert {workspace, home} <= set(each)
    unit = (DEPLOY / "zeus.service").read_text()
    folders = re.findall(r"^StateDirectory=(.*)$", unit, re.MULTILINE)[0].split()
    assert [f"/var/lib/{each}" for each in folders] == [workspace, home]
    assert f"\nWorkingDirectory={workspace}\n" in unit
    assert f"\nEnvironment=HOME={home}\n" in unit


def test_the_container_file_is_clean_and_every_file_that_it_copies_exists() -> None:
    linted("hadolint", DEPLOY / "Containerfile")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert copied
    assert [name for line in copied for name in line.split() if not (ROOT / name).exists()] == []
    assert container_file()["USER"] == "10001:10001"


def test_the_yaml_files_are_clean() -> None:
    rules = "{line-length: {max: 130}, document-start: disable, braces: {max-spaces-inside: 1}}"
    linted("yamllint", "-s", "-d", f"{{extends: default, rules: {rules}}}", DEPLOY)


def test_compose_fits_its_schema_and_mounts_what_exists() -> None:
    linted("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")
    zeus = read(DEPLOY / "compose.yaml")["services"]["zeus"]
    assert (zeus["read_only"], zeus["cap_drop"]) == (True, ["ALL"])
    mounted = [each.split(":") for each in zeus["volumes"] if each.startswith("./")]
    assert {target for _, target, _ in mounted} == {"/etc/zeus/zeus.yaml", "/etc/zeus/zeus-serve.yaml"}
    assert all((DEPLOY / source).is_file() for source, _, _ in mounted)
    assert str(DEPLOY.parent / zeus["build"]["dockerfile"]) == str(DEPLOY / "Containerfile")


@pytest.mark.parametrize(
    "file", sorted(each for each in KUBERNETES.glob("*.yaml") if "apiVersion: k" not in each.read_text())
)
def test_each_resource_fits_the_schema_of_kubernetes(file: Path) -> None:
    if not file.name.startswith("zeus"):
        linted("kubernetes-validate", "--strict", file)


def test_the_kustomization_lists_every_file() -> None:
    listed = read(KUBERNETES / "kustomization.yaml")
    (config,) = listed["configMapGenerator"]
    named = {"kustomization.yaml", *listed["resources"], *config["files"]}
    assert named == {each.name for each in KUBERNETES.iterdir()}
    assert listed["images"][0]["newTag"] == __version__
    pod = read(KUBERNETES / "deployment.yaml")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == int(container_file()["USER"].split(":")[0])
    for each in (*pod["initContainers"], *pod["containers"]):
        assert each["securityContext"]["readOnlyRootFilesystem"]
    selected = read(KUBERNETES / "deployment.yaml")["spec"]["selector"]["matchLabels"]
    for name, place in {
        "service": "selector",
        "disruption-budget": "selector",
        "network-policy": "podSelector",
    }.items():
        found = read(KUBERNETES / f"{name}.yaml")["spec"][place]
        assert found.get("matchLabels", found) == selected


@pytest.mark.parametrize("folder", [DEPLOY, KUBERNETES])
def test_the_configs_and_settings_hold(folder: Path, tmp_path: Path) -> None:
    checked = check(
        folder / "zeus.yaml", directory=tmp_path, environ=ENVIRON, trust=recorded_trust({}, "all")
    )
    assert checked.config.storage.url == ENVIRON["ZEUS_DATABASE_URL"]
    settings = read_settings(folder / "zeus-serve.yaml", directory=tmp_path, environ=ENVIRON).settings
    assert settings.storage.url == ENVIRON["ZEUS_DATABASE_URL"]
    assert settings.proxies, "without it or `tls`, a service on 0.0.0.0 is refused"
    assert read(DEPLOY / "zeus.yaml") == read(KUBERNETES / "zeus.yaml")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    unit = tmp_path / "zeus.service"
    unit.write_text((DEPLOY / "zeus.service").read_text().replace("/opt/zeus/bin/zeus", "/bin/true"))
    made = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    rated = ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit]
    made = subprocess.run(rated, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-300:]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_service_runs_as_the_container_says_on_a_file_system_that_it_cannot_write(tmp_path: Path) -> None:
    etc, state, home = tmp_path / "etc", tmp_path / "state", tmp_path / "home"
    state.mkdir()
    home.mkdir()
    # As a ConfigMap is mounted: links into a folder.
    (etc / "..data").mkdir(parents=True)
    (etc / "..data" / "zeus.yaml").write_text("version: 1\nextends: quickstart\nname: helper\n")
    (etc / "..data" / "zeus-serve.yaml").write_text("proxies: [127.0.0.1]\nhosts: [agents.example.org]\n")
    for name in ("zeus.yaml", "zeus-serve.yaml"):
        (etc / name).symlink_to(f"..data/{name}")
    user = container_file()["USER"].split(":")[0]
    where, variables = container_file()["WORKDIR"], container_variables()
    inside = [
        "bwrap", "--unshare-user", "--uid", user, "--gid", user, "--die-with-parent", "--ro-bind", "/", "/",
        "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/etc", "--tmpfs", "/var/lib",
        "--ro-bind", etc, "/etc/zeus", "--bind", state, where, "--chdir", where,
        "--bind", home, variables["HOME"],
        "--remount-ro", "/etc", "--remount-ro", "/var/lib",
        "--clearenv", "--setenv", "HOME", variables["HOME"],
        "--setenv", "XDG_STATE_HOME", variables["XDG_STATE_HOME"],
        "--setenv", "XDG_CONFIG_HOME", variables["XDG_CONFIG_HOME"],
        "--setenv", "ZEUS_TRUST", "/etc/zeus/zeus.yaml,/etc/zeus/zeus-serve.yaml",
        "--setenv", "PATH", os.environ["PATH"], "--setenv", "PYTHONDONTWRITEBYTECODE", "1",
        "--ro-bind", ROOT, ROOT, sys.executable, "-m", "zeus_runtime",
    ]  # fmt: skip
    settings = ["--settings", "/etc/zeus/zeus-serve.yaml"]
    made = subprocess.run([*inside, "keys", "create", "ci", *settings], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    key = re.search(r"\bzeus_\S+", made.stdout + made.stderr)
    assert key is not None, made.stdout
    port = unused_port()
    with (tmp_path / "log.txt").open("w") as log:
        process = subprocess.Popen([*inside, *words("CMD"), "--port", str(port)], stderr=log)
    try:
        headers = {"Authorization": f"Bearer {key[0]}", "Host": "agents.example.org"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            for _ in range(600):
                assert process.poll() is None, (tmp_path / "log.txt").read_text()
                try:
                    if client.get("/health").text == "ok\n":
                        break
                except httpx.TransportError:
                    time.sleep(0.1)
            session = client.post("/v1/sessions", json={}, headers=headers).json()["session"]
            run = client.post(f"/v1/sessions/{session}/runs", json={"prompt": "go"}, headers=headers).json()[
                "run"
            ]
            with client.stream("GET", f"/v1/runs/{run}/events", headers=headers) as events:
                last = [line for line in events.iter_lines() if line.startswith("data: ")][-1]
            assert '"type": "complete"' in last
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert (state / "zeus-quickstart" / "report.md").is_file()
    assert "Traceback" not in (tmp_path / "log.txt").read_text()
