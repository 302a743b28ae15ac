"""Loading: from a file, a preset or standard input to a Document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from zeus_runtime.command_lines import HIDDEN_VALUE
from zeus_runtime.config.document import Document
from zeus_runtime.config.layers.dotenv import is_dotenv, read_dotenv
from zeus_runtime.config.layers.files import Layers, any_layer, overlay_path
from zeus_runtime.config.layers.interpolation import (
    InterpolationError,
    defaults_of,
    interpolate,
    without_variables,
)
from zeus_runtime.config.layers.merge import NO_REFS, assign, merge, ref_places
from zeus_runtime.config.layers.plugin_home import PluginHomes
from zeus_runtime.config.layers.set_option import parse_setting
from zeus_runtime.config.messages.diagnostics import ConfigError, Diagnostic
from zeus_runtime.config.secrets.masking import HiddenStr, Redactor, secrets_of_environment, told_apart
from zeus_runtime.config.secrets.secret_names import holds_secret, looks_secret
from zeus_runtime.config.secrets.secrets_in_values import secrets_in
from zeus_runtime.config.secrets.written_secrets import written_secrets
from zeus_runtime.config.yaml.reader import MAX_BYTES, decode, read
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Node, hidden, plain, show_path, unshown_values, walk
from zeus_runtime.config.yaml.tree import Path as NodePath
from zeus_runtime.process_path import given_environ

STDIN = "<stdin>"


def load(
    source: str | Path | None = None,
    *,
    env: str | None = None,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    homes: Sequence[Path] = (),
    plugin_homes: PluginHomes = lambda rules: (),
    stdin: BinaryIO | None = None,
    directory: Path | None = None,
    text: str | None = None,
    permit: Callable[[str, Path], None] = any_layer,
    folder: Path | None = None,
) -> Document:
    """Read a config: what it extends, the file, its overlay, ``--set``; then fill in the variables.

    Nothing is validated yet but the YAML itself and what layering needs; ``check`` does that, and also reports the
    unset variables found here (``Document.problems``).

    Args:
        source: a file, the name of a preset in a Home, ``-`` for standard input; None for ``zeus.yaml`` in the
            working directory.
        env: the overlay's name: ``prod`` for ``zeus.prod.yaml`` beside ``zeus.yaml``.
        sets: ``a.b=value`` texts, applied in order after the overlay.
        environ: the process environment; None for this process's. ``.env`` beside the file adds to it and never
            overrides it; for a preset or standard input, ``.env`` in the working directory.
        homes: Home folders, nearest first.
        plugin_homes: gives the Homes of installed plugins, whose presets are found after those of ``homes``.
        stdin: where ``-`` reads; None for this process's standard input.
        directory: the working directory; None for this process's.
        text: is read instead of the content of the file that ``source`` names.
        permit: raises for a file that may not be a layer (``Layers``).
        folder: where a relative ``source`` starts, if another config names it; None for the working directory.

    Raises:
        ConfigError: with every problem of the layer that could not be read.
    """
    directory = Path.cwd() if directory is None else directory
    if environ is None:
        environ = given_environ()
    from zeus_runtime.config.model import Config

    layers = Layers(directory, homes, ref_places(Config), plugin_homes, permit=permit)
    # Before any file is read, as the first preset of a plugin asks for it.
    layers.stronger = lambda: _settings_read(sets)
    if source == "-" and folder is None:
        path, name = None, STDIN
        if env is not None:
            raise _no_overlay()
        root = layers.text(_standard_input(stdin), STDIN, directory)
        dotenv = _dotenv(directory, layers)
    else:
        path = layers.locate(source, folder)
        # The Homes of an agent may be those that the config above names.
        layers.near = (path.parent, *homes) if folder is None else (folder,)
        name = layers.shown(path)
        if text is not None:
            layers.instead[path] = text
        root, dotenv = read_stack(layers, path, env)
    # The values of `.env` that the environment overrides are secrets too: a tool may read the file.
    environ = _hidden_environ({**dict(dotenv), **environ})
    root = _with_settings(root, sets, layers)
    # A later `--set` may replace the value of an earlier one.
    read = (*layers.read, *_settings_read(sets))
    secrets = secrets_of_environment(environ, dotenv).adding(_secret_defaults((root, *read)))
    readings = [filled_in(each, environ) for each in read]
    # One file without `--set` has no value that another one replaces.
    replaced = tuple(each[0] for each in readings) if len(readings) > 1 else ()
    # A default is written in the file too if its variable is set, and a tool may read the file.
    replaced += tuple(literal(each) for each in (root, *read) if _has_default(each))
    root, problems, sources = _filled(root, environ, layers.sources, secrets, replaced)
    return Document(
        source=name,
        path=path,
        root=root,
        sources=sources,
        folders=layers.folders,
        files=layers.files,
        environ=environ,
        directory=directory,
        notices=tuple(layers.notices),
        problems=(*layers.problems, *problems),
        replaced=replaced,
        defaults=tuple(default for each in readings for default in each[1:]),
        homes=tuple(layers.named_homes),
        further=tuple(layers.absent),
    )


def read_stack(layers: Layers, path: Path, env: str | None) -> tuple[Node, Sequence[tuple[str, str]]]:
    """The tree of a config over what it extends, with its overlay, and the names and values of its ``.env``.

    Args:
        path: the config, as ``layers`` locates it.
        env: the overlay's name.

    Raises:
        ConfigError: a file cannot be read or is not sound, unless ``layers`` tolerates it.
    """
    if env is not None:
        settings = layers.stronger
        layers.stronger = lambda: (*settings(), *_overlay_read(path, env))
    folder = layers.directory if layers.is_preset(path) else path.parent
    return layers.stacked(path, env), _dotenv(folder, layers)


def _standard_input(stdin: BinaryIO | None) -> str:
    if stdin is None:
        import sys

        stdin = sys.stdin.buffer
    return decode(stdin.read(MAX_BYTES + 1), STDIN)


def _no_overlay() -> ConfigError:
    hint = "give a file, or pass the changes with --set"
    message = "--env needs a file: standard input has no overlay beside it"
    return ConfigError([Sources().diagnostic("file-not-found", message, None, hint=hint)])


def _dotenv(folder: Path, layers: Layers) -> Sequence[tuple[str, str]]:
    path = folder / ".env"
    if not is_dotenv(path):
        layers.absent.append(path)
        return ()
    layers.permit_file(path)
    name = layers.shown(path)
    try:
        variables = read_dotenv(path, name)
    except ConfigError:
        if not layers.tolerates:
            raise
        variables = ()
    layers.files[name] = path
    return variables


def _hidden_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with its secrets masked in ``repr``, so that a traceback with locals does not show them."""
    return {
        name: HiddenStr(value) if looks_secret(name) or any(secrets_in(name, value)) else value
        for name, value in environ.items()
    }


def with_setting(document: Document, text: str) -> Document:
    """A document as it would be with one more ``--set``, whose secrets it knows by their names; variables in ``text``
    are not filled in.

    Args:
        text: ``a.b=value``; its variables are not filled in.

    Raises:
        ConfigError: it is not a setting.
    """
    from zeus_runtime.config.model import Config

    setting = parse_setting(text)
    refs = ref_places(Config)
    layer = assign(document.root, setting.path, setting.value, refs, setting.origin)
    root = merge(document.root, layer, refs)
    redactor = _knowing_written((document.root, root), document.redactor)
    root = hidden(root, redactor)
    texts = {**document.sources.texts, setting.source: setting.text}
    return replace(
        document,
        root=root,
        sources=Sources(texts, redactor, unshown_values(root)),
        folders={**document.folders, setting.source: document.directory},
        replaced=(*document.replaced, document.root),
    )


def _with_settings(root: Node, sets: Sequence[str], layers: Layers) -> Node:
    problems: list[Diagnostic] = []
    for text in sets:
        try:
            setting = parse_setting(text)
        except ConfigError as error:
            problems += error.diagnostics
            continue
        layers.sources = layers.sources.adding(setting.source, setting.text)
        layers.folders[setting.source] = layers.directory
        try:
            layer = assign(root, setting.path, setting.value, layers.refs, setting.origin)
        except IndexError as error:
            mark = setting.origin.value
            hint = "count from 0; the next free number appends"
            problems.append(layers.sources.diagnostic("bad-set", str(error), mark, hint=hint))
            continue
        root = merge(root, layer, layers.refs)
    if problems:
        raise ConfigError(problems)
    return root


def _settings_read(sets: Sequence[str]) -> Iterator[Node]:
    """Each sound ``--set`` as a separate layer, strongest first."""
    for text in reversed(sets):
        try:
            setting = parse_setting(text)
        except ConfigError:
            continue
        yield assign(Node({}, (setting.origin,)), setting.path, setting.value, NO_REFS, setting.origin)


def _overlay_read(main: Path, env: str) -> Iterator[Node]:
    """The overlay's own tree, if it can be read; it is read again later, and its problems are reported then."""
    try:
        path = overlay_path(main, env)
        yield read(decode(path.read_bytes(), path.name), path.name)
    except (OSError, ConfigError):
        return


def _filled(
    root: Node, environ: Mapping[str, str], sources: Sources, redactor: Redactor, replaced: Sequence[Node]
) -> tuple[Node, list[Diagnostic], Sources]:
    """The tree with its variables filled in, the unset variables, and the sources that know the secrets in it."""
    filled = _Filled(environ)
    tree = filled.tree(root)
    redactor = _knowing_written((tree, *replaced), redactor.adding(filled.secrets))
    root = hidden(tree, redactor)
    sources = Sources(sources.texts, redactor, unshown_values(root))
    # Worded after all secrets are known, since an unset variable may stand beside one in its line.
    problems = [
        sources.diagnostic(
            error.code,
            f"{show_path(path)}: {error.message}",
            node.origin.value,
            path=path,
            width=len(node.value),
            hint=error.hint,
        )
        for path, node, error in filled.failed
    ]
    return root, problems, sources


def _knowing_written(trees: Iterable[Node], redactor: Redactor) -> Redactor:
    """A redactor that also knows the secrets that are written out in these trees."""
    written = [pair for each in trees for pair in written_secrets(plain(each)).items()]
    shown = told_apart(written)
    return redactor.adding({text: shown[text, name] for text, name in written})


def _secret_defaults(trees: Iterable[Node]) -> dict[str, str]:
    """The defaults of variables whose names say secret, to names that the values of the variables do not have."""
    found = {
        (secret, name)
        for tree in trees
        for _, node in walk(tree)
        if isinstance(node.value, str) and ":-" in node.value
        for name, default in defaults_of(node.value)
        for secret in secrets_in(name, default)
    }
    shown = told_apart([*sorted(found), *(("", name) for _, name in found)])
    return {secret: shown[secret, name] for secret, name in sorted(found)}


def _has_default(root: Node) -> bool:
    return any(isinstance(node.value, str) and ":-" in node.value for _, node in walk(root))


def literal(node: Node) -> Node:
    """A tree as it is without any variable; defaults stay."""
    if isinstance(node.value, dict):
        return node._replace(value={key: literal(child) for key, child in node.value.items()})
    if isinstance(node.value, list):
        return node._replace(value=[literal(child) for child in node.value])
    if isinstance(node.value, str) and "$" in node.value:
        return node._replace(value=without_variables(node.value))
    return node


def shown_setting(text: str, known: Redactor | None = None) -> str:
    """A ``--set`` argument for a command that a person may copy.

    Its value is ``HIDDEN_VALUE`` if a part of it would be masked where the config is shown.

    Args:
        known: the secrets of the config, of which the argument alone does not tell.
    """
    try:
        setting = parse_setting(text)
    except ConfigError:
        return HIDDEN_VALUE  # no command can use it
    read = assign(Node({}, (setting.origin,)), setting.path, setting.value, NO_REFS, setting.origin)
    written = literal(read)
    root = hidden(written, _knowing_written((written,), Redactor(_secret_defaults((read,)))))
    texts = (node.value for _, node in walk(root) if isinstance(node.value, HiddenStr))
    if not any((*texts, *unshown_values(root))) and (known is None or known.text(text) == text):
        return text
    return text[: setting.value.origin.value.column - 1] + HIDDEN_VALUE


def shown_text(document: Document, text: str) -> str:
    """A content of the main file, masked as its lines in messages are, and also what only this content keeps secret.

    Args:
        text: may be another one than the document was read from, and not valid.
    """
    name = document.source
    if document.sources.texts.get(name) == text:
        return document.sources.text(name)
    sources = Sources({name: text}, document.redactor)
    try:
        root = read(text, name)
    except ConfigError:
        # Nobody can say which key a value belongs to, so all that may belong to a secret is masked.
        return sources.text(name)
    redactor = document.redactor.adding(_secret_defaults((root,)))
    replaced = (*filled_in(root, {}), literal(root))
    return _filled(root, document.environ, sources, redactor, replaced)[2].text(name)


def with_text(
    document: Document, name: str, text: str, environs: Iterable[Mapping[str, str]]
) -> Document | None:
    """A document of another content of one file alone, which knows the secrets of this content by their places.

    Args:
        name: the file's, as messages show it.
        environs: its variables are filled in with each of these.

    Returns:
        None for a text that is no config.
    """
    try:
        root = read(text, name)
    except ConfigError:
        return None
    trees = (*(tree for environ in environs for tree in filled_in(root, environ)), literal(root))
    redactor = _knowing_written(trees, Redactor(_secret_defaults((root,))))
    return replace(document, root=trees[0], sources=Sources({}, redactor), replaced=trees, problems=())


def filled_in(root: Node, environ: Mapping[str, str]) -> tuple[Node, ...]:
    """A file's tree with its variables filled in; behind it, the tree with their defaults, if that is another one.

    A value whose variables are not set is an empty text.
    """
    texts = [node.value for _, node in walk(root) if isinstance(node.value, str) and "$" in node.value]
    if not texts:
        return (root,)
    found = (_Filled(environ, unset="").tree(root),)
    return (*found, _Filled({}, unset="").tree(root)) if any(":-" in text for text in texts) else found


class _Filled:
    """Fills variables in.

    Args:
        unset: stands for a value whose variables are not set; None: the value stays as it is.
    """

    def __init__(self, environ: Mapping[str, str], *, unset: str | None = None) -> None:
        self.secrets: dict[str, str] = {}
        self.failed: list[tuple[NodePath, Node, InterpolationError]] = []
        self._environ = environ
        self._unset = unset

    def tree(self, node: Node, path: NodePath = ()) -> Node:
        # Zeus reads no `x-` key. If an alias repeats its value under another key, it is filled in there.
        if path and isinstance(path[0], str) and path[0].startswith("x-"):
            return node
        if isinstance(node.value, dict):
            return node._replace(
                value={key: self.tree(child, (*path, key)) for key, child in node.value.items()}
            )
        if isinstance(node.value, list):
            return node._replace(
                value=[self.tree(child, (*path, index)) for index, child in enumerate(node.value)]
            )
        if not isinstance(node.value, str) or "$" not in node.value:
            return node
        environ = self._environ
        try:
            text, variables = interpolate(node.value, environ)
        except InterpolationError as error:
            self.failed.append((path, node, error))
            return node if self._unset is None else node._replace(value=self._unset)
        self.secrets.update(
            {environ.get(name, ""): name for name in variables if holds_secret(name, environ.get(name, ""))}
        )
        return node._replace(value=text, variables=tuple(variables))
