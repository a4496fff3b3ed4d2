"""Deepgram's voices (`/v1/speak`) and models (`/v1/listen`), as deepgram-sdk 7.17 has them."""

from __future__ import annotations

_SPEAKERS = {
    "aura-{}-en": "angus arcas asteria athena helios hera luna orion orpheus perseus stella zeus",
    "aura-2-{}-en": (
        "amalthea andromeda apollo arcas aries asteria athena atlas aurora callista cora "
        "cordelia delia draco electra harmonia helena hera hermes hyperion iris janus juno "
        "jupiter luna mars minerva neptune odysseus ophelia orion orpheus pandora phoebe "
        "pluto saturn selene thalia theia vesta zeus"
    ),
    "aura-2-{}-es": (
        "agustina alvaro antonia aquila carina celeste diana estrella gloria javier luciano "
        "nestor olivia selena silvia sirio valerio"
    ),
    "aura-2-{}-de": "aurelia elara fabian julius kara lara viktoria",
    "aura-2-{}-nl": "beatrix cornelia daphne hestia lars leda rhea roman sander",
    "aura-2-{}-fr": "agathe hector",
    "aura-2-{}-it": "cesare cinzia demetra dionisio elio flavio livia maia melia",
    "aura-2-{}-ja": "ama ebisu fujin izanami uzume",
}
VOICES = frozenset(
    pattern.format(name) for pattern, names in _SPEAKERS.items() for name in names.split()
)
MODELS = frozenset(
    (
        "nova-3 nova-3-general nova-3-medical nova-2 nova-2-general nova-2-meeting "
        "nova-2-finance nova-2-conversationalai nova-2-voicemail nova-2-video nova-2-medical "
        "nova-2-drivethru nova-2-automotive nova nova-general nova-phonecall nova-medical "
        "enhanced enhanced-general enhanced-meeting enhanced-phonecall enhanced-finance base "
        "meeting phonecall finance conversationalai voicemail video custom"
    ).split()
)
