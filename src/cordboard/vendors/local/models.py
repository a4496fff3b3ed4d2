"""The models of offline parts: found, verified, loaded and warmed up side by side, as needed.

``await load_needed_models(workers, needs_of(config))`` at start-up, once per process; the calls
share the result. Nothing blocks the event loop. Warm files take about a second on two cores, which
a program can spend on its other imports: see ``OfflineLoading``.

Every pipeline needs the ears of this machine (voice activity, echo, the end of turns), independent
of its recogniser and voice; the turn end model may be missing: calls then run on silence and words
alone. The recogniser and the voice are loaded where a pipeline has them. The voice is optional for
every pipeline: it speaks when the pipeline's own voice fails. For realtime agents all of them are
optional: the voice says the sentences that they cannot, and the recogniser hears a yes or a no.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeVar

import structlog

from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.workers import Workers
from cordboard.audio.silero import SileroModel
from cordboard.audio.turn_model import SmartTurnModel, TurnEndModel
from cordboard.audio.vad import VoiceActivityBank
from cordboard.config.providers import PipelineProvider
from cordboard.config.schema import Config
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.errors import ModelError
from cordboard.vendors.local.config import HibariTts, WhisperStt
from cordboard.vendors.local.hibari import HibariVoice
from cordboard.vendors.local.model_files import (
    HIBARI_HEART,
    INSTALL_COMMAND,
    SILERO_VAD,
    SMART_TURN,
    WHISPER_TINY_EN,
    ModelFile,
    checked_folder,
)
from cordboard.vendors.local.whisper import WhisperRecogniser

log = structlog.get_logger()

Loaded = TypeVar("Loaded")


class Need(IntEnum):
    """Degree to which a model is needed."""

    NO = 0
    WANTED = 1
    """Loaded if it is installed."""
    REQUIRED = 2


@dataclass(frozen=True, slots=True)
class ModelNeeds:
    """The models that a configuration needs."""

    recogniser: Need = Need.NO
    voice: Need = Need.NO
    ears: Need = Need.REQUIRED
    """Without these no model is loaded at all."""


ALL_MODELS = ModelNeeds(Need.REQUIRED, Need.REQUIRED)


class OfflineLoading:
    """All models while they load in the worker threads. Start it first, and do the rest of the
    start-up meanwhile. Needs no event loop to start."""

    def __init__(self, workers: Workers, needs: ModelNeeds = ALL_MODELS) -> None:
        self.workers = workers
        # The longest first: there are fewer threads than models.
        self._voice = _begin(workers, needs.voice, _hibari)
        self._recogniser = _begin(workers, needs.recogniser, _whisper)
        self._turn_end = workers.begin(turn_end_model)
        self._voice_activity = _begin(workers, needs.ears, lambda _: _silero())

    async def finished(self) -> OfflineModels | None:
        """Return the models as soon as all are loaded; call once. None: they were optional, and are
        not installed. Raises ``ModelError`` for a package or file that is missing or altered."""
        ears, mouth, activity, (turn_end, missing) = await asyncio.gather(
            _there(self._recogniser),
            _there(self._voice),
            _there(self._voice_activity),
            asyncio.wrap_future(self._turn_end),
        )
        if activity is None:
            return None
        if missing:
            log.warning("turn_end_model_missing", reason=missing)
        thread = ThreadPoolExecutor(1, thread_name_prefix="cordboard-vad")
        bank = VoiceActivityBank(activity, thread)
        echo_thread = ThreadPoolExecutor(1, thread_name_prefix="cordboard-echo")
        for each in (thread, echo_thread):
            each.submit(int)  # the thread itself starts now, and in no call
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        # Left to itself, the linear algebra of one small echo question spins on every core.
        threadpool_limits(limits=1, user_api="blas")
        return OfflineModels(
            bank, ears, mouth, thread, echo_thread, self.workers, turn_end, missing
        )


async def load_needed_models(workers: Workers, needs: ModelNeeds) -> OfflineModels | None:
    """Load the needed models; None: they were optional, and are not installed. Raises
    ``ModelError`` for a package or file that is missing or altered."""
    return await OfflineLoading(workers, needs).finished()


async def load_offline_models(workers: Workers) -> OfflineModels:
    """Load all models. Raises ``ModelError`` for a package or file that is missing or altered."""
    models = await OfflineLoading(workers).finished()
    if models is None:
        raise ModelError(f"the offline models are not installed: {INSTALL_COMMAND}")
    return models


async def completed(models: OfflineModels, needs: ModelNeeds) -> OfflineModels:
    """Return the models, with those that another configuration needs in addition. Raises
    ``ModelError``."""
    recogniser = Need.NO if models.recogniser is not None else needs.recogniser
    voice = Need.NO if models.voice is not None else needs.voice
    if needs.ears is Need.NO or (recogniser is Need.NO and voice is Need.NO):
        return models
    ears, mouth = await asyncio.gather(
        _there(_begin(models.workers, recogniser, _whisper)),
        _there(_begin(models.workers, voice, _hibari)),
    )
    return replace(models, recogniser=ears or models.recogniser, voice=mouth or models.voice)


def needs_of(config: Config) -> ModelNeeds:
    """Return the models of this machine that the configuration's providers need. Beside a realtime
    agent they say the sentences that it cannot, and hear a yes or a no: optional, used where they
    are installed. So is the recogniser that judges who answers an outbound call."""
    providers = config.providers.values()
    pipelines = [p for p in providers if isinstance(p, PipelineProvider)]
    realtime = any(isinstance(p, RealtimeProvider) for p in providers)
    judges = realtime or config.outbound.enabled
    if not pipelines:
        wanted = Need.WANTED if realtime else Need.NO
        return ModelNeeds(wanted, wanted, wanted)
    hears = any(isinstance(pipeline.stt, WhisperStt) for pipeline in pipelines)
    speaks = any(isinstance(pipeline.tts, HibariTts) for pipeline in pipelines)
    recogniser = Need.REQUIRED if hears else Need.WANTED if judges else Need.NO
    return ModelNeeds(recogniser, Need.REQUIRED if speaks else Need.WANTED)


def missing_models(needs: ModelNeeds) -> list[tuple[Need, ModelError]]:
    """Return the needed models whose files are missing or altered, each with its need; the turn end
    model is wanted with the ears. Loads nothing. Blocks: it reads every file."""
    files = [
        *((needs.recogniser, file) for file in WHISPER_TINY_EN),
        (needs.voice, HIBARI_HEART),
        (needs.ears, SILERO_VAD),
        (min(needs.ears, Need.WANTED), SMART_TURN),
    ]
    missing = []
    for need, file in files:
        try:
            if need is not Need.NO:
                file.checked()
        except ModelError as error:
            missing.append((need, error))
    return missing


def _whisper(workers: Workers) -> WhisperRecogniser:
    return WhisperRecogniser(checked_folder(WHISPER_TINY_EN), workers)


def _hibari(workers: Workers) -> HibariVoice:
    return HibariVoice(HIBARI_HEART.checked(), workers)


def _silero() -> SileroModel:
    """Return the voice activity model of every pipeline. Raises ``ModelError``."""
    try:
        return SileroModel(SILERO_VAD.checked())
    except ModelError as error:
        raise ModelError(f"every pipeline, also one of cloud parts, needs ears: {error}") from error
    except ImportError as error:
        raise ModelError(
            f"every pipeline, also one of cloud parts, needs ears: {error}; install what is "
            f"missing with: {INSTALL_COMMAND}"
        ) from error


def _begin(
    workers: Workers, need: Need, load: Callable[[Workers], Loaded]
) -> Future[Loaded | None] | None:
    """Start to load a model, if it is needed; None: it is not."""

    def loaded() -> Loaded | None:
        try:
            return load(workers)
        except ModelError as error:
            if need is Need.REQUIRED:
                raise
            log.info("wanted_model_missing", reason=str(error))
            return None

    return None if need is Need.NO else workers.begin(loaded)


async def _there(loading: Future[Loaded | None] | None) -> Loaded | None:
    return None if loading is None else await asyncio.wrap_future(loading)


def turn_end_model(file: ModelFile = SMART_TURN) -> tuple[TurnEndModel | None, str]:
    """Return the turn end model, or the reason for its absence: its file is missing or altered.
    Blocks."""
    try:
        return SmartTurnModel(file.checked()), ""
    except ModelError as error:
        return None, str(error)
