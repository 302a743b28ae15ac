"""Models: the interface of a model component, with its requests, answers, errors and profiles.

A model is an object with ``name`` and ``stream(request)``, which yields pieces and ends with a ``ModelResponse``. An
error is a ``ModelError``; its class says whether to try again (``model_error`` finds it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.context.cache_model import rules_for as rules_for
    from zeus_runtime.models.cassette import Cassette as Cassette
    from zeus_runtime.models.cassette import cassette_model as cassette_model
    from zeus_runtime.models.cassette import read_cassette as read_cassette
    from zeus_runtime.models.cassette import recorded_answer as recorded_answer
    from zeus_runtime.models.content import calls_of as calls_of
    from zeus_runtime.models.content import is_users as is_users
    from zeus_runtime.models.content import text_of as text_of
    from zeus_runtime.models.error_classification import model_error as model_error
    from zeus_runtime.models.errors import ModelError as ModelError
    from zeus_runtime.models.interface import CachePoints as CachePoints
    from zeus_runtime.models.interface import Model as Model
    from zeus_runtime.models.interface import ModelPiece as ModelPiece
    from zeus_runtime.models.interface import ModelRequest as ModelRequest
    from zeus_runtime.models.interface import ModelResponse as ModelResponse
    from zeus_runtime.models.interface import ReasoningDelta as ReasoningDelta
    from zeus_runtime.models.interface import Retrying as Retrying
    from zeus_runtime.models.interface import TextDelta as TextDelta
    from zeus_runtime.models.interface import ToolCallDelta as ToolCallDelta
    from zeus_runtime.models.interface import ToolSchema as ToolSchema
    from zeus_runtime.models.interface import Usage as Usage
    from zeus_runtime.models.messages import assistant_message as assistant_message
    from zeus_runtime.models.messages import from_chat as from_chat
    from zeus_runtime.models.messages import from_payload as from_payload
    from zeus_runtime.models.messages import to_chat as to_chat
    from zeus_runtime.models.messages import to_payload as to_payload
    from zeus_runtime.models.pictures import MAX_PICTURE_BYTES as MAX_PICTURE_BYTES
    from zeus_runtime.models.pictures import Picture as Picture
    from zeus_runtime.models.pictures import keep_picture as keep_picture
    from zeus_runtime.models.pictures import most_picture_bytes as most_picture_bytes
    from zeus_runtime.models.pictures import picture_of as picture_of
    from zeus_runtime.models.pictures import pictures_of as pictures_of
    from zeus_runtime.models.profiles import ModelProfile as ModelProfile
    from zeus_runtime.models.profiles import cost_usd as cost_usd
    from zeus_runtime.models.recorder import Recorder as Recorder
    from zeus_runtime.models.recorder import Tape as Tape
    from zeus_runtime.models.vision import PictureSight as PictureSight
    from zeus_runtime.strict_json import well_formed as well_formed

_ROOMS = {
    "CachePoints": "models.interface",
    "Cassette": "models.cassette",
    "MAX_PICTURE_BYTES": "models.pictures",
    "Model": "models.interface",
    "ModelError": "models.errors",
    "ModelPiece": "models.interface",
    "ModelProfile": "models.profiles",
    "ModelRequest": "models.interface",
    "ModelResponse": "models.interface",
    "Picture": "models.pictures",
    "PictureSight": "models.vision",
    "ReasoningDelta": "models.interface",
    "Recorder": "models.recorder",
    "Retrying": "models.interface",
    "Tape": "models.recorder",
    "TextDelta": "models.interface",
    "ToolCallDelta": "models.interface",
    "ToolSchema": "models.interface",
    "Usage": "models.interface",
    "assistant_message": "models.messages",
    "calls_of": "models.content",
    "cassette_model": "models.cassette",
    "cost_usd": "models.profiles",
    "from_chat": "models.messages",
    "from_payload": "models.messages",
    "is_users": "models.content",
    "keep_picture": "models.pictures",
    "model_error": "models.error_classification",
    "most_picture_bytes": "models.pictures",
    "picture_of": "models.pictures",
    "pictures_of": "models.pictures",
    "read_cassette": "models.cassette",
    "recorded_answer": "models.cassette",
    "rules_for": "context.cache_model",
    "text_of": "models.content",
    "to_chat": "models.messages",
    "to_payload": "models.messages",
    "well_formed": "strict_json",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
