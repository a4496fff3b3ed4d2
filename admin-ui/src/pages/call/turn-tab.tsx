// One turn: where its time went, as the caller heard it, and what both sides said.
import { heardParts } from "../../conversation/heard.ts";
import { Empty } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button, IconButton } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Duration } from "../../parts/time.tsx";
import { words } from "../../words/call.ts";
import type { Span } from "./axis.ts";
import type { DetailsProps } from "./details.tsx";
import type { Shown } from "./shown.ts";
import { beginOf, type Stage, shareOf, type Tool, type Turn, waitOf, waitsOf } from "./timeline.ts";

export function TurnTab({ shown, onView }: DetailsProps) {
  const { call, search } = shown;
  const index = call.turns.findIndex(({ number }) => number === search.turn);
  const turn = call.turns[index];
  if (!turn) return <Longest shown={shown} />;
  const tools = call.tools.filter((tool) => tool.turn === turn.number);
  return (
    <div className="grid gap-4 px-4 pb-4">
      <Head shown={shown} turn={turn} index={index} onView={onView} />
      <Waits turn={turn} tools={tools} />
      <Said turn={turn} />
    </div>
  );
}

const MOST_LISTED = 8;

/** The turns in which the caller waited longest: where one would look first. */
function Longest({ shown }: { shown: Shown }) {
  const slow = shown.call.turns
    .map((turn) => ({ turn, waits: waitsOf(turn), ms: waitOf(turn) ?? 0 }))
    .filter(({ waits }) => waits.length > 0)
    .sort((a, b) => b.ms - a.ms)
    .slice(0, MOST_LISTED);
  const most = slow[0]?.ms ?? 0;
  if (most === 0) return <Empty icon="clock" title={words.turn.noWaits} />;
  return (
    <section className="px-4 pb-4">
      <h2>{words.turn.longest}</h2>
      <p className="mb-2 text-muted">{words.turn.none}</p>
      <ul>
        {slow.map(({ turn, waits, ms }) => (
          <li key={turn.number}>
            <button
              type="button"
              className="flex min-h-8 w-full items-center gap-3 rounded text-left hover:bg-hover"
              onClick={() => choose(shown, turn)}
            >
              <span className="w-16 shrink-0">{words.turn.title(turn.number)}</span>
              <span className="flex h-3 min-w-0 flex-1 gap-px">
                {waits.map(({ stage, from, to }) => (
                  <span
                    key={stage}
                    className={cx("first:rounded-l-sm last:rounded-r-sm", STAGE_COLOURS[stage])}
                    style={{ width: `${((to - from) / most) * 100}%` }}
                  />
                ))}
              </span>
              <span className="w-16 shrink-0 text-right">
                <Duration ms={ms} />
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function choose({ player, go }: Shown, turn: Turn): void {
  const at = beginOf(turn);
  player.seek(at);
  go({ turn: turn.number, at: Math.round(at) });
}

interface HeadProps extends DetailsProps {
  turn: Turn;
  index: number;
}

function Head({ shown, turn, index, onView }: HeadProps) {
  const { call, player } = shown;
  const [before, after] = [call.turns[index - 1], call.turns[index + 1]];
  const whole = spanOf(turn);
  return (
    <div className="flex items-center gap-1">
      <h2 className="mr-auto text-base">{words.turn.title(turn.number)}</h2>
      {player.hasSound && (
        <Button small icon="play" onClick={() => void player.playFrom(whole.from)}>
          {words.turn.play}
        </Button>
      )}
      <Button
        small
        icon="search"
        onClick={() => onView({ from: Math.max(0, whole.from - 300), to: whole.to + 300 })}
      >
        {words.turn.zoom}
      </Button>
      <IconButton
        small
        icon="left"
        label={words.turn.before}
        disabled={!before}
        onClick={() => before && choose(shown, before)}
      />
      <IconButton
        small
        icon="right"
        label={words.turn.after}
        disabled={!after}
        onClick={() => after && choose(shown, after)}
      />
    </div>
  );
}

function spanOf(turn: Turn): Span {
  const from = beginOf(turn);
  return { from, to: Math.max(turn.agent?.end_ms ?? 0, turn.caller?.end_ms ?? 0, from + 500) };
}

/** The same colours as in the picture; the name of the stage stands beside it. */
const STAGE_COLOURS: Readonly<Record<Stage, string>> = {
  vad: "bg-strong",
  endpoint: "bg-strong",
  stt: "bg-caller",
  brain: "bg-accent",
  tts: "bg-agent",
  wire: "bg-strong",
  answer: "bg-warn",
};

function Waits({ turn, tools }: { turn: Turn; tools: readonly Tool[] }) {
  const waits = waitsOf(turn);
  const [first, last] = [waits[0], waits.at(-1)];
  if (!first || !last) return <p className="text-muted">{words.turn.noWait}</p>;
  const total = last.to - first.from;
  return (
    <section>
      <h3 className="flex items-baseline justify-between">
        {words.turn.wait}
        <span className="text-lg">
          <Duration ms={waitOf(turn) ?? total} />
        </span>
      </h3>
      {turn.filler_first && <p className="text-muted">{words.turn.filler}</p>}
      <table className="mt-1 w-full border-collapse">
        <thead className="sr-only">
          <tr>
            <th scope="col">{words.turn.stage}</th>
            <th scope="col">{words.turn.share}</th>
            <th scope="col">{words.turn.time}</th>
          </tr>
        </thead>
        <tbody>
          {waits.map((wait) => (
            <WaitRow
              key={wait.stage}
              name={words.stages[wait.stage]}
              colour={STAGE_COLOURS[wait.stage]}
              begin={(wait.from - first.from) / total}
              share={(wait.to - wait.from) / total}
              ms={wait.to - wait.from}
            />
          ))}
          {tools.map((tool) => {
            const ms = shareOf(tool, { from: first.from, to: last.to });
            if (ms === 0) return null;
            return (
              <WaitRow
                key={tool.id}
                name={words.turn.ofModel(tool.name)}
                colour="bg-tool"
                begin={Math.max(0, tool.begin_ms - first.from) / total}
                share={ms / total}
                ms={ms}
                within
              />
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

interface WaitRowProps {
  name: string;
  colour: string;
  begin: number;
  share: number;
  ms: number;
  within?: boolean;
}

function WaitRow({ name, colour, begin, share, ms, within = false }: WaitRowProps) {
  return (
    <tr>
      <th
        scope="row"
        className={cx(
          "max-w-40 truncate py-0.5 pr-3 text-left font-normal",
          within ? "pl-3 text-xs text-muted" : "w-32",
        )}
      >
        {name}
      </th>
      <td className="w-full">
        <span className="relative block h-3 rounded-sm bg-hover">
          <span
            className={cx("absolute inset-y-0 min-w-0.5 rounded-sm", colour, within && "inset-y-1")}
            style={{ left: `${begin * 100}%`, width: `${share * 100}%` }}
          />
        </span>
      </td>
      <td className="pl-3 text-right">
        <Duration ms={ms} />
      </td>
    </tr>
  );
}

function Said({ turn: { caller, agent, held } }: { turn: Turn }) {
  return (
    <dl className="grid gap-3">
      {caller && (
        <div>
          <dt className="text-caller">{words.turn.caller}</dt>
          <dd>
            {caller.understood || caller.text || words.transcript.noWords}
            <span className="block text-xs text-muted">
              {caller.understood && caller.understood !== caller.text && (
                <>
                  {words.turn.recognised} “{caller.text}”,{" "}
                </>
              )}
              {words.turn.confidence} {`${Math.round(caller.confidence * 100)}\u00a0%`}
            </span>
          </dd>
        </div>
      )}
      {agent && (
        <div>
          <dt className="text-agent">{words.turn.agent}</dt>
          <dd>
            {heardParts(agent.text, agent.heard, agent.cut).map((part) => (
              <span
                key={`${part.heard}/${part.text}`}
                className={cx(!part.heard && "text-muted line-through")}
              >
                {!part.heard && <span className="sr-only">{words.transcript.notHeard} </span>}
                {part.text}{" "}
              </span>
            ))}
            {agent.cut && <Badge tone="warn">{words.transcript.cut}</Badge>}
            {held && <span className="block text-xs text-muted">{words.turn.held}</span>}
          </dd>
        </div>
      )}
    </dl>
  );
}
