"""The messages of live translation."""

from typing import Final, Literal

from pydantic import BaseModel, Field

from service.api.request_body import ApiKey, Entries, Flag, LanguageCode, OtherApiKey, StrictBody
from service.errors import InvalidRequest
from service.live.events import Commit, Draft, Ended, Kept, Revision, Segment
from service.live.policies import DEFAULTS, KEPT_HYPOTHESES, Policy, PolicyName
from service.live.session import Start
from service.live.sessions import SessionRequest
from service.live.source import MAX_UNFINISHED_CHARACTERS
from service.text.glossary import EMPTY_GLOSSARY, Glossary
from service.translation.options import MAX_BEAM_SIZE, Beam, Inspect, TranslationOptions

EVENT_NAMES: Final[dict[type, str]] = {
    Commit: "commit",
    Draft: "draft",
    Segment: "segment",
    Revision: "revision",
    Kept: "kept",
    Ended: "done",
}
_MOST_HELD_WORDS: Final = 50
_FAR: Final = 2**53


class LiveChange(StrictBody):
    """A change of a session's source."""

    append: str | None = Field(
        default=None,
        max_length=MAX_UNFINISHED_CHARACTERS,
        description="text that continues the source, with the white space before or after it",
        examples=["Hello wor"],
    )
    replace_from: int | None = Field(
        default=None,
        ge=0,
        le=_FAR,
        description="the position in the whole source, in characters, from which `text` replaces it: a correction of "
        "a recogniser. Committed translation stays",
    )
    text: str = Field(default="", max_length=MAX_UNFINISHED_CHARACTERS, description="the text of `replace_from`")
    final: bool | int | None = Field(
        default=None, description="the source does not change any more: all so far (true), or up to a position"
    )
    end: Flag = Field(default=False, description="the end of the session, which is answered by `done`")
    at: int | None = Field(
        default=None, ge=0, description="refuse the change if the source has another length: for several writers"
    )


class LiveChanged(BaseModel):
    source_end: int = Field(description="the length of the whole source, in characters", examples=[9])


class LiveStart(LiveChange):
    """The first message of a session, or of a connection that goes on with one; it may change the source, too."""

    source: LanguageCode | None = Field(default=None, description="language code of the text", examples=["en"])
    target: LanguageCode | None = Field(default=None, description="language code to translate into", examples=["fr"])
    latency: Literal["low", "balanced", "quality"] = Field(
        default="balanced", description="how far the translation stays behind the text"
    )
    policy: PolicyName | None = Field(default=None, description="a policy by name, instead of that of `latency`")
    words: int | None = Field(default=None, ge=0, le=_MOST_HELD_WORDS, description="the parameter of `policy`")
    share: float | None = Field(default=None, ge=0.0, le=1.0, description="the second parameter of `align_att`")
    revise: Flag = Field(default=False, description="also send the best translation of each finished sentence")
    beam_size: int = Field(default=4, ge=1, le=MAX_BEAM_SIZE, description="beam width of `revise`")
    glossary: Entries = Field(default={}, description="as of `POST /translate`")
    glossary_id: str | None = Field(default=None, max_length=200, description="as of `POST /translate`")
    alias: str | None = Field(
        default=None,
        pattern="^[A-Za-z0-9_-]{16,64}$",
        description="a secret name under which followers read this session, and later ones with it",
    )
    session: str | None = Field(default=None, max_length=64, description="the session to go on with")
    last_event: int = Field(default=0, ge=0, description="the id of its last event that has arrived")
    source_start: int = Field(
        default=0, ge=0, le=_FAR, description="for another server's session: where its unfinished sentence starts"
    )
    segment: int = Field(default=0, ge=0, le=_FAR, description="the number of that sentence")
    index: int = Field(default=0, ge=0, le=_FAR, description="the number of characters committed before `committed`")
    committed: str = Field(default="", max_length=2_000, description="what is committed of that sentence")
    api_key: ApiKey = None
    apiKey: OtherApiKey = None

    def key(self) -> str | None:
        return self.api_key or self.apiKey

    def request(self, owner: str, max_beam_size: int) -> SessionRequest:
        """Build the request for a session; takes a while with a long glossary. Raises `InvalidRequest`."""
        if self.source is None or self.target is None:
            raise InvalidRequest("source" if self.source is None else "target", "is missing")
        if self.glossary and self.glossary_id:
            raise InvalidRequest("glossary_id", "the request has a glossary already")
        options = TranslationOptions(
            beam=Beam(min(self.beam_size, max_beam_size)),
            glossary=Glossary(self.glossary) if self.glossary else EMPTY_GLOSSARY,
            splitting="sentences",
            inspect=Inspect(alignment=True, attention=True),
            caller=owner,
        )
        start = Start(self.source_start, self.segment, self.index + len(self.committed))
        return SessionRequest(
            source=self.source,
            target=self.target,
            owner=owner,
            options=options,
            latency=self.latency,
            policy=self._policy(),
            revises=self.revise,
            start=start,
            committed=self.committed,
            alias=self.alias,
        )

    def _policy(self) -> Policy | None:
        given = {name: value for name in ("words", "share") if (value := getattr(self, name)) is not None}
        if self.policy is None:
            if given:
                raise InvalidRequest(next(iter(given)), "needs a policy")
            return None
        policy = DEFAULTS[self.policy]._replace(**given)
        if policy.name == "local_agreement" and not 2 <= policy.words <= KEPT_HYPOTHESES:
            raise InvalidRequest("words", f"must be from 2 to {KEPT_HYPOTHESES} with local_agreement")
        return policy
