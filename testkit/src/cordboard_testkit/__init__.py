"""The shipped test kit: real calls against a real engine, measured where the caller is.

Only tests and the commands `demo`, `call` and `bench` import it; it may import any room.

| part                            | contents                                                      |
|---------------------------------|---------------------------------------------------------------|
| `asterisk`                      | `AsteriskInstance`: a throw-away real Asterisk                 |
| `sip`                           | `SipPhone`, `PhoneCall`: a SIP telephone                       |
| `audiosocket_caller`            | `SimulatedCaller`: a caller without SIP and Asterisk           |
| `voice_line`                    | the interface of both callers: say, hear, press, wait, record  |
| `timeline`, `correlation`       | sound on the wall clock: speech segments, latencies, likeness  |
| `scenario`, `caller_voice`      | `Conversation`: a caller with a script and a voice             |
| `leaks`                         | finds remains of a call, in this process and in Asterisk       |
| `media_thread`                  | the thread that keeps the callers' 20 ms exact                 |

Nothing is imported here, so that each part costs only itself.
"""
