"""Reads Secrets and ConfigMaps, by name only: the agent may not list them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping

from iris_operator.agent.inputs.model import InputFault, Whose
from iris_operator.agent.inputs.wants import ObjectKind, Objects, Want
from iris_operator.ports.errors import ApiError, NotFoundError
from iris_operator.ports.kube import CONFIG_MAPS, SECRETS, Body, KubeApi

_KINDS = {ObjectKind.SECRET: SECRETS, ObjectKind.CONFIG_MAP: CONFIG_MAPS}


async def read_objects(api: KubeApi, namespace: str, wants: Iterable[Want]) -> Objects:
    """All side by side. InputFault when the API can't be asked: then nothing is known of what is there."""
    asked = list(wants)
    answers = await asyncio.gather(*(_read(api, namespace, want) for want in asked))
    return Objects(namespace, {want: data for want, data in zip(asked, answers, strict=True) if data is not None})


async def _read(api: KubeApi, namespace: str, want: Want) -> Mapping[str, bytes] | None:
    kind, name = want
    try:
        body = await api.get(_KINDS[kind], name, namespace)
    except NotFoundError:
        return None
    except ApiError as error:
        words = f"{kind} {name} in namespace {namespace} could not be read: {error}"
        raise InputFault("InputUnread", words, Whose.PLATFORM) from error
    return contents(body)


def contents(body: Body) -> dict[str, bytes]:
    """Keys and values of a Secret or a ConfigMap as the API has it."""
    if body.get("kind") == "Secret" or "type" in body:
        return {key: base64.b64decode(value) for key, value in (body.get("data") or {}).items()}
    texts = {key: str(value).encode() for key, value in (body.get("data") or {}).items()}
    return texts | {key: base64.b64decode(value) for key, value in (body.get("binaryData") or {}).items()}
