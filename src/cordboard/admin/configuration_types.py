"""Bodies and answers of the endpoints of the configuration's file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr

from cordboard.admin.endpoint import Gives, Takes
from cordboard.admin.engine import Reloaded
from cordboard.config.load import MOST_KIB
from cordboard.config.versions import Origin

MOST_TEXT = MOST_KIB * 1024
MOST_EDITS = 100
_BASE = Field("", max_length=64, pattern="^[0-9a-f]*$")


class OnThePhone(Gives):
    context: str
    calls: int


class Difference(Gives):
    lines: list[str]
    """A unified diff."""
    patch: str = ""
    """For `git apply` in the file's folder, of a draft whose author may publish while the file
    cannot be written from here; empty if it would show a secret."""
    on_the_phone: list[OnThePhone]
    """Live calls, which go on with the configuration that they began with."""


class Published(Reloaded):
    version: str
    """Digest of the file."""
    on_the_phone: list[OnThePhone]


class ContextUses(Gives):
    context: str
    providers: list[str]
    """Its own, then those that take over, in their order."""
    tools: list[str]
    """As the file names them."""
    numbers: list[str]
    """Dialled numbers that lead to it by `routes`."""
    is_default: bool
    recent_calls: int | None
    """Calls of the last 30 days, without tests; None without an index of them."""


class ConfigUses(Gives):
    contexts: list[ContextUses]
    destinations: list[str]
    """Names to which calls can be transferred, from every context with the tool `transfer`."""
    takeovers: list[str]
    """Those of them at whose phone an operator can take a call over."""


class ConfigVersion(Gives):
    digest: str
    at: str
    who: str
    why: str
    source: Origin
    parent: str
    generation: int | None
    result: str
    in_file: bool
    in_force: bool


class ConfigVersions(Gives):
    versions: list[ConfigVersion]
    next: str
    """Cursor of the next page; empty on the last one."""


class VersionText(Gives):
    digest: str
    text: str


class SavedDraft(Gives):
    id: str
    base: str
    saved_at: str
    stale: bool
    """True if the file has changed since the draft was begun."""


class SavedDraftText(SavedDraft):
    text: str


class SavedDrafts(Gives):
    drafts: list[SavedDraft]


class DraftText(Takes):
    text: str | None = Field(None, max_length=MOST_TEXT)
    """YAML in place of the file's, as long as a file may be; left out: the file as it is now."""
    base: str = _BASE
    """Digest of the version that the holes of the text belong to; empty: the file."""


class DraftOnBase(Takes):
    text: str = Field(max_length=MOST_TEXT)
    base: str = Field(max_length=64, pattern="^[0-9a-f]{64}$")


class DraftAgainst(Takes):
    text: str = Field(max_length=MOST_TEXT)
    base: str = _BASE
    against: str = _BASE
    """A version; empty: the file."""


Path = Annotated[list[StrictStr | StrictInt], Field(max_length=60)]


class SetKey(Takes):
    op: Literal["set"]
    path: Path
    value: Any


class RemoveKey(Takes):
    op: Literal["remove"]
    path: Path


class InsertKey(Takes):
    op: Literal["insert"]
    path: Path
    value: Any
    before: str | None = None


class RenameKey(Takes):
    op: Literal["rename"]
    path: Path
    key: str


class MoveItem(Takes):
    op: Literal["move"]
    path: Path
    index: int


OneEdit = Annotated[
    SetKey | RemoveKey | InsertKey | RenameKey | MoveItem, Field(discriminator="op")
]


class Edits(Takes):
    text: str = Field(max_length=MOST_TEXT)
    base: str = _BASE
    edits: list[OneEdit] = Field(min_length=1, max_length=MOST_EDITS)


class ToPublish(DraftOnBase):
    comment: str = Field("", max_length=500)
    """Reason, for the history of versions and the audit."""


class ToRestore(Takes):
    base: str = _BASE
    """Digest of the file that the person has seen; empty: whatever it is."""
    comment: str = Field("", max_length=500)


class VersionsPage(Takes):
    limit: int = Field(50, ge=1, le=200)
    cursor: str = Field("", pattern="^[0-9]{0,12}$")


class DifferenceTo(Takes):
    to: str = _BASE
    """A version; empty: the file."""
