"""The answer classifier over recordings of what answers an outbound call: `bench answers`.

The words are those of the offline recogniser, which gets the sound as a call gives it, and come
as late as it took. Prints a confusion table beside the targets, for `--half held-out` (the default)
or `tune`; `--only sound` judges without words.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.answers.corpus import RATE, Builder, Recording, Sound, Speak
from bench.options import Half, Options
from bench.report import Report, Summary, Target
from cordboard.agent_api.stt import Recogniser
from cordboard.agent_api.workers import Workers
from cordboard.audio.resample import resample
from cordboard.errors import KitError
from cordboard.speech.answer.classifier import (
    FRAME_BYTES,
    REVISABLE,
    AnswerClassifier,
    Verdict,
)
from cordboard.speech.answer.phrases import Answer
from cordboard.vendors.local.model_files import PIPER_JOE, checked_folder
from cordboard.vendors.local.models import load_offline_models
from cordboard_testkit.asterisk.installation import find_asterisk

Progress = Callable[[str], None]
LEAST = {
    "human, short answer": 0.98,
    "human, long greeting": 0.90,
    "voicemail": 0.95,
    "screening": 0.90,
}
"""Targets; the other kinds must all be right."""
RIGHT = {
    Answer.VOICEMAIL: {Answer.VOICEMAIL, Answer.MACHINE},
}
"""Verdicts that lead to the right act: a machine, too, is left its message after the beep."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts about one recording."""

    recording: Recording
    first: Verdict | None
    last: Verdict | None
    """The verdict at the beep of a voicemail, else after 15 s."""
    beep: float | None
    text: str

    @property
    def kind(self) -> str:
        answer = self.recording.answer
        if answer is not Answer.HUMAN:
            return answer.value
        return "human, long greeting" if self.recording.long else "human, short answer"

    @property
    def right(self) -> bool:
        answer = self.recording.answer
        if self.first is None or self.last is None:
            return False
        # `machine` alone does nothing but wait, so that a person may be taken for one for a moment.
        harmless = self.first.answer in (Answer.HUMAN, Answer.MACHINE)
        same = self.last.answer in RIGHT.get(answer, {answer})
        return same and (answer is not Answer.HUMAN or harmless)


async def measure(progress: Progress, options: Options = Options()) -> Report:  # noqa: B008 - frozen
    """Raises `AsteriskMissing` (its prompts are recordings), `KitError` without Piper's voice."""
    prompts = find_asterisk().data / "sounds/en"
    recordings = await asyncio.to_thread(
        lambda: list(Builder(options.half, prompts, voice(options.half)).recordings())
    )
    progress(f"{len(recordings)} recordings are built")
    workers = Workers()
    models = await load_offline_models(workers)
    recogniser = None if options.only == ("sound",) else models.recogniser
    judged = []
    try:
        for number, recording in enumerate(recordings, 1):
            judged.append(await judge(recording, recogniser))
            if number % 50 == 0:
                progress(f"{number} are judged")
    finally:
        models.close()
        await workers.close()
    return report(judged, options)


def voice(half: Half) -> Speak:
    """Return the synthetic voice of a half."""
    if half == "tune":
        from hibari import Hibari

        engine = Hibari(threads=2)

        def heart(text: str) -> Sound:
            return resample(engine(text, seed=1), 24_000, RATE).astype(np.float64)

        return heart
    try:
        from piper import PiperVoice
    except ImportError as error:
        raise KitError("the held-out half needs Piper's voice: pip install -e .[piper]") from error
    folder = checked_folder(PIPER_JOE)
    joe = PiperVoice.load(folder / "en_US-joe-medium.onnx")

    def speak(text: str) -> Sound:
        chunks = [
            resample(chunk.audio_float_array, chunk.sample_rate, RATE)
            for chunk in joe.synthesize(text)
        ]
        return np.concatenate(chunks).astype(np.float64)

    return speak


async def judge(recording: Recording, recogniser: Recogniser | None) -> Judged:
    """Play a recording to a classifier, with the words of the recogniser in its own time."""
    classifier, pcm = AnswerClassifier(), recording.pcm
    words, due = "", -1.0
    until = int((recording.beep or REVISABLE) * 2 * RATE) + 16 * FRAME_BYTES
    for at in range(0, len(pcm) - FRAME_BYTES + 1, FRAME_BYTES):
        late = recogniser is not None and recording.beep is None and classifier.words_due
        if at > until - FRAME_BYTES and not late:
            break
        if 0 <= due <= classifier.now:
            due = -1.0
            classifier.words(words)
        classifier.hear(pcm[at : at + FRAME_BYTES])
        if recogniser is not None and due < 0 and classifier.wants_words:
            begin, end = (int(each * RATE) * 2 for each in classifier.take_sound())
            transcript = await recogniser.transcribe(pcm[begin:end])
            words, due = transcript.text, classifier.now + transcript.took_ms / 1000
    return Judged(
        recording, classifier.first, classifier.verdict, classifier.beep_end, classifier.text
    )


def cost_us(recordings: list[Recording], frames: int = 20_000) -> float:
    """Return the microseconds of one frame, over the recordings' sound without words."""
    done, began = 0, time.perf_counter()
    for recording in recordings:
        classifier = AnswerClassifier()
        for at in range(0, len(recording.pcm), FRAME_BYTES):
            classifier.hear(recording.pcm[at : at + FRAME_BYTES])
            done += 1
        if done >= frames:
            break
    return (time.perf_counter() - began) / done * 1e6


def report(judged: list[Judged], options: Options) -> Report:
    """Return the confusion, the targets and the times."""
    made = Report("answers")
    kinds = list(dict.fromkeys(each.kind for each in judged))
    rows = []
    for kind in kinds:
        of_kind = [each for each in judged if each.kind == kind]
        right = sum(each.right for each in of_kind)
        rows.append(
            [
                kind,
                str(len(of_kind)),
                f"{right / len(of_kind):.1%}",
                _counted([each.first for each in of_kind]),
                _counted([each.last for each in of_kind]),
                _seconds([each.first.at for each in of_kind if each.first is not None]),
            ]
        )
        target = Target(f"{kind} right", right / len(of_kind), LEAST.get(kind, 1.0), "", True)
        made.targets.append(target)
    heads = ["what answered", "n", "right", "first verdict", "last verdict", "first after (max) s"]
    words = "sound alone" if options.only == ("sound",) else "with the recogniser's words"
    made.table(f"answers, half {options.half}, {words}", heads, rows)
    short = [
        each.first.at - each.recording.spoken
        for each in judged
        if each.kind == "human, short answer" and each.first is not None and each.right
    ]
    if short:
        summary = Summary.of(short)
        made.notes.append(
            f"decision after the end of a short answer: median {summary.median:.2f} s, "
            f"p95 {summary.p95:.2f} s"
        )
        made.figures["decision_after_hello_p95"] = summary.p95
    _note_beeps(judged, made)
    cost = cost_us([each.recording for each in judged])
    made.targets.append(Target("one frame", cost, 100, "µs"))
    wrong = [each for each in judged if not each.right]
    for each in wrong[:40]:
        made.notes.append(f"wrong: {each.recording.name[:60]}: {each.last}: {each.text[:120]!r}")
    made.figures["wrong"] = [each.recording.name for each in wrong]
    return made


def _note_beeps(judged: list[Judged], made: Report) -> None:
    real = [each for each in judged if each.recording.beep is not None]
    found = [
        each.beep - each.recording.beep
        for each in real
        if each.beep is not None
        and each.recording.beep is not None
        and abs(each.beep - each.recording.beep) < 0.3
    ]
    false = sum(
        each.beep is not None and abs(each.beep - (each.recording.beep or -9)) >= 0.3
        for each in judged
    )
    late = f", known {np.median(found) * 1000:.0f} ms off at the median" if found else ""
    made.notes.append(f"beeps: {len(found)} of {len(real)} found, {false} false{late}")
    made.figures["beeps"] = {"real": len(real), "found": len(found), "false": false}


def _counted(verdicts: list[Verdict | None]) -> str:
    names = Counter("none" if each is None else str(each.answer.value) for each in verdicts)
    return " ".join(f"{name} {count}" for name, count in names.most_common())


def _seconds(values: list[float]) -> str:
    return f"{np.median(values):.2f} ({max(values):.2f})" if values else ""
