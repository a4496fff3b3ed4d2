// A program with an API key: lists the live calls, and ends the first one.
//   node wallboard.ts ORIGIN KEY
import { connect, Refused } from "../src/api/client.ts";

const [origin, key] = process.argv.slice(2);
const engine = connect(origin, key);
const { data: live } = await engine.GET("/api/v1/calls/live");
for (const call of live?.calls ?? []) console.log(call.context, call.state);
const first = live?.calls[0];
if (first) {
  await engine.POST("/api/v1/calls/{call_id}/hangup", {
    params: { path: { call_id: first.call_id } },
  });
}
try {
  await engine.GET("/api/v1/users");
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log(error.status, error.refusal.code);
}
