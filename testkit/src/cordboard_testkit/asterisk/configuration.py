"""Writes the configuration folder of a throw-away Asterisk.

Everything lives under one root: `etc`, `var`, `run` (the control socket), `log`, `spool`.
Called by `AsteriskInstance` before the first start; a restart keeps the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cordboard_testkit.asterisk.dialplan import (
    PHONES_DIALPLAN_FILE,
    PHONES_PJSIP_FILE,
    DialplanSettings,
    extensions_conf,
    phones_dialplan,
    phones_pjsip,
    pjsip_conf,
)
from cordboard_testkit.asterisk.installation import AsteriskInstallation

_FOLDERS = (
    "etc",
    "var/keys",
    "run",
    "log",
    "cache",
    "spool/tmp",
    "spool/recording",
    "spool/monitor",
)

# Modules that wait for a service or device that a test machine lacks, or that only log warnings.
_NOT_LOADED = """
app_adsiprog app_agent_pool app_alarmreceiver app_festival app_getcpeid app_meetme app_minivm
app_voicemail app_voicemail_imap app_voicemail_odbc cdr_adaptive_odbc cdr_csv cdr_custom cdr_manager
cdr_odbc cdr_pgsql cdr_radius cdr_sqlite3_custom cdr_tds cel_custom cel_manager cel_odbc cel_pgsql
cel_radius cel_sqlite3_custom cel_tds chan_console chan_dahdi chan_iax2 chan_mgcp chan_mobile
chan_motif chan_ooh323 chan_sip chan_skinny chan_unistim func_odbc pbx_ael pbx_dundi pbx_lua
res_adsi res_aeap res_calendar res_calendar_caldav res_calendar_ews res_calendar_exchange
res_calendar_icalendar res_clialiases res_config_ldap res_config_odbc res_config_pgsql
res_config_sqlite3 res_corosync res_fax res_fax_spandsp res_geolocation res_hep res_hep_pjsip
res_hep_rtcp res_http_media_cache res_mwi_external res_mwi_external_ami res_ari_mailboxes res_odbc
res_odbc_transaction res_phoneprov res_pjsip_config_wizard res_pjsip_geolocation res_pjsip_notify
res_pjsip_phoneprov_provider res_pjsip_stir_shaken res_resolver_unbound res_smdi res_snmp
res_speech_aeap res_statsd res_stir_shaken res_stun_monitor res_timing_dahdi res_timing_pthread
res_xmpp
""".split()

# Empty files, without which Asterisk logs errors.
_EMPTY_FILES = """
acl amd ccss cdr_manager chan_websocket cli_aliases confbridge followme pjproject res_parking
websocket_client
""".split()


@dataclass(frozen=True, slots=True)
class AsteriskConfiguration:
    """The parameters of the files."""

    root: Path
    installation: AsteriskInstallation
    sip_port: int
    http_port: int
    rtp_ports: range
    ari_user: str
    ari_password_hash: str
    """A hash of crypt(3), because any ARI user can read `ari.conf`."""
    dialplan: DialplanSettings
    pjsip: str = ""
    modules: str = ""
    """Lines appended to `modules.conf`, e.g. `noload => res_ari.so`."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Further files of `etc`, name to text; they replace the stock ones of the same name."""

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    def write(self) -> None:
        """Make the folders and write every file."""
        for folder in _FOLDERS:
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for name in _EMPTY_FILES:
            (self.etc / f"{name}.conf").write_text("[general]\n" if name != "acl" else "")
        for name, text in {**self._core_files(), **self._service_files(), **self.files}.items():
            (self.etc / name).write_text(text)
        self.write_phones({})

    def write_phones(self, phones: dict[str, tuple[str, int]]) -> None:
        """Write the files that name the connected phones; needs a reload to take effect."""
        (self.etc / PHONES_PJSIP_FILE).write_text(phones_pjsip(phones))
        (self.etc / PHONES_DIALPLAN_FILE).write_text(phones_dialplan(phones))

    def _core_files(self) -> dict[str, str]:
        root, data = self.root, self.installation.data
        kept = {"app_voicemail"} if "voicemail.conf" in self.files else set()
        noload = "\n".join(f"noload => {name}.so" for name in _NOT_LOADED if name not in kept)
        return {
            "asterisk.conf": f"""[directories]
astetcdir => {root}/etc
astmoddir => {self.installation.modules}
astvarlibdir => {root}/var
astdbdir => {root}/var
astkeydir => {root}/var
astcachedir => {root}/cache
astdatadir => {data}
astagidir => {data}/agi-bin
astspooldir => {root}/spool
astrundir => {root}/run
astlogdir => {root}/log
[options]
verbose = 3
nocolor = yes
dontwarn = yes
""",
            "modules.conf": f"[modules]\nautoload=yes\n{noload}\n{self.modules}\n",
            "logger.conf": "[general]\ndateformat=%F %T.%3q\n[logfiles]\n"
            "console => notice,warning,error\nfull => notice,warning,error,verbose(3),dtmf\n",
            "extensions.conf": extensions_conf(self.dialplan),
            "pjsip.conf": pjsip_conf(self.sip_port, self.pjsip),
        }

    def _service_files(self) -> dict[str, str]:
        first, last = self.rtp_ports[0], self.rtp_ports[-1]
        return {
            "http.conf": "[general]\nenabled=yes\nbindaddr=127.0.0.1\n"
            f"bindport={self.http_port}\nsessionlimit=500\n",
            "ari.conf": "[general]\nenabled=yes\npretty=no\n"
            f"[{self.ari_user}]\ntype=user\nread_only=no\npassword_format=crypt\n"
            f"password={self.ari_password_hash}\n",
            # So that ARI can make users: each engine of several has one of its own.
            "sorcery.conf": "[res_ari]\nuser=config,ari.conf,criteria=type=user\nuser=memory\n",
            "rtp.conf": f"[general]\nrtpstart={first}\nrtpend={last}\nstrictrtp=yes\n"
            "icesupport=no\n",
            "udptl.conf": f"[general]\nudptlstart={first}\nudptlend={last}\n",
            "manager.conf": "[general]\nenabled=no\n",
            "cdr.conf": "[general]\nenable=no\n",
            "cel.conf": "[general]\nenable=no\n",
            "stasis.conf": "[threadpool]\ninitial_size=5\nidle_timeout_sec=20\nmax_size=50\n",
            "features.conf": "[general]\n",
            "queues.conf": "[general]\n",
            "queuerules.conf": "[general]\n",
            "indications.conf": "[general]\ncountry=us\n[us]\ndescription=United States\n"
            "ringcadence=2000,4000\ndial=350+440\nbusy=480+620/500,0/500\n"
            "ring=440+480/2000,0/4000\ncongestion=480+620/250,0/250\n",
            "musiconhold.conf": f"[default]\nmode=files\ndirectory={self.installation.data}/moh\n",
            "prometheus.conf": "[general]\nenabled=no\n",
        }
