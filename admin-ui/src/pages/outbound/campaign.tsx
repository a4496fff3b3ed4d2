// One campaign: how its people are called, how far they are, and the way to their calls.
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { get, keyOf, type Schema, useGet } from "../../app/api.ts";
import { Answer, Empty, Loading, Problem } from "../../parts/answer.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { type Fact, Facts } from "../../parts/facts.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Duration, Time } from "../../parts/time.tsx";
import { words as all } from "../../words/outbound.ts";
import { reasonText } from "../calls/cells.tsx";
import { CampaignActs, ProgressBar, State } from "./campaigns.tsx";
import { CAMPAIGN, type Campaign, LOOK_EVERY_MS, LOOKING } from "./data.ts";
import { type Progress, progressOf, WHATS, type What } from "./progress.ts";
import type { Search } from "./search.ts";

type Person = Schema<"CalledPerson"> & { place: number };

const words = all.campaign;
const PAGE = 50;
/** Pages of people that are kept up to date; of more, the counts alone are. */
const MOST_RENEWED = 4;

export interface CampaignDetailsProps {
  name: string;
  /** Only people who are that far. */
  what: What | undefined;
  onWhat: (search: Search) => void;
}

export function CampaignDetails({ name, what, onWhat }: CampaignDetailsProps) {
  const query = useGet(CAMPAIGN, { path: { campaign: name }, query: { limit: 1 } }, LOOKING);
  return (
    <>
      <LinkButton look="quiet" icon="left" to="/outbound" className="mb-2 -ml-3">
        {words.back}
      </LinkButton>
      <Answer query={query}>
        {({ campaign }) => {
          const progress = progressOf(campaign.people);
          return (
            <>
              <div className="mb-4 flex flex-wrap items-center gap-3">
                <h2 className="text-lg break-words">{name}</h2>
                <State campaign={campaign} progress={progress} />
                <span className="ml-auto">
                  <CampaignActs campaign={campaign} />
                </span>
              </div>
              {campaign.waits && (
                <p className="mb-4 break-words text-muted">{words.waits(campaign.waits)}</p>
              )}
              <div className="grid items-start gap-x-4 xl:grid-cols-[minmax(0,3fr)_minmax(20rem,2fr)]">
                <Outcomes progress={progress} what={what} onWhat={onWhat} />
                <Section title={words.facts}>
                  <Facts facts={factsOf(campaign)} />
                </Section>
              </div>
              <People name={name} what={what} />
            </>
          );
        }}
      </Answer>
    </>
  );
}

function factsOf(campaign: Campaign): Fact[] {
  const { context, hours, days, attempts, retry_minutes, concurrency, created } = campaign;
  return [
    [words.context, context],
    [words.hours, words.hoursOf(days, hours)],
    [words.attempts, words.attemptsOf(attempts, retry_minutes)],
    [words.concurrency, concurrency],
    [words.consent, campaign.consent || words.none],
    [words.message, campaign.message || words.none],
    [words.keys, campaign.keys.join(" ") || words.none],
    [words.created, <Time key="created" at={created} />],
  ];
}

interface OutcomesProps {
  progress: Progress;
  what: What | undefined;
  onWhat: (search: Search) => void;
}

/** The counts; each of them shows its people alone. */
function Outcomes({ progress, what, onWhat }: OutcomesProps) {
  return (
    <Section title={words.progress}>
      <ProgressBar progress={progress} />
      <ul className="mt-3 flex flex-wrap gap-2">
        <Choice
          text={`${progress.total.toLocaleString()} ${words.everyone}`}
          chosen={what === undefined}
          onChoose={() => onWhat({ what: undefined })}
        />
        {progress.parts.map((part) => {
          const known = WHATS.find((each) => each === part.what);
          return (
            <Choice
              key={part.what}
              text={`${part.count.toLocaleString()} ${all.whatText(part.what)}`}
              chosen={known !== undefined && what === known}
              onChoose={() => onWhat({ what: known })}
            />
          );
        })}
      </ul>
    </Section>
  );
}

function Choice(props: { text: string; chosen: boolean; onChoose: () => void }) {
  return (
    <li>
      <button
        type="button"
        aria-pressed={props.chosen}
        onClick={props.onChoose}
        className={cx(
          "min-h-6 rounded-md border px-2",
          props.chosen ? "border-accent bg-selected font-medium" : "border-line hover:bg-hover",
        )}
      >
        {props.text}
      </button>
    </li>
  );
}

function People({ name, what }: { name: string; what: What | undefined }) {
  const people = useInfiniteQuery({
    queryKey: keyOf(CAMPAIGN, { people: name, what }),
    queryFn: ({ pageParam, signal }) => {
      const query = { limit: PAGE, cursor: pageParam, what: what ?? "" };
      return get(CAMPAIGN, { path: { campaign: name }, query }, signal);
    },
    initialPageParam: 0,
    getNextPageParam: ({ next }) => next ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) =>
      (state.data?.pages.length ?? 0) > MOST_RENEWED ? false : LOOK_EVERY_MS,
  });
  const rows = useMemo(
    () =>
      people.data?.pages
        .flatMap((page) => page.people)
        .map((person, place): Person => ({ ...person, place })), // masked numbers may be equal
    [people.data],
  );
  return (
    <Section title={words.people} flush>
      {people.error && !rows && (
        <Problem error={people.error} onRetry={() => void people.refetch()} />
      )}
      {!people.error && !rows && <Loading />}
      {rows && (
        <DataTable
          label={words.people}
          rows={rows}
          rowKey={({ place }) => String(place)}
          columns={COLUMNS}
          empty={<Empty icon="search" title={words.nobody} />}
        />
      )}
      {people.hasNextPage && (
        <div className="grid justify-items-center border-t border-line p-2">
          <Button busy={people.isFetchingNextPage} onClick={() => void people.fetchNextPage()}>
            {words.more}
          </Button>
        </div>
      )}
    </Section>
  );
}

const COLUMNS: readonly Column<Person>[] = [
  {
    id: "number",
    head: words.columns.number,
    cell: ({ number, zone }) => <span title={zone}>{number}</span>,
  },
  {
    id: "what",
    head: words.columns.what,
    cell: ({ state, outcome, reason }) => (
      <>
        {all.whatText(state === "done" ? outcome : state)}
        {state === "pending" && outcome && <span>, {all.whatText(outcome)}</span>}
        {reason && reason !== outcome && (
          <span className="ml-2 text-muted phone:hidden">{reasonText(reason)}</span>
        )}
      </>
    ),
  },
  {
    id: "answer",
    head: words.columns.answer,
    wide: true,
    cell: ({ answer }) => (answer ? (all.answers[answer] ?? answer) : "–"),
  },
  {
    id: "attempts",
    head: words.columns.attempts,
    align: "end",
    wide: true,
    cell: ({ attempts }) => attempts,
  },
  {
    id: "began",
    head: words.columns.began,
    wide: true,
    cell: ({ began }) => (began ? <Time at={began} /> : "–"),
  },
  {
    id: "duration",
    head: words.columns.duration,
    align: "end",
    wide: true,
    cell: ({ state, duration_ms }) => <Duration ms={state === "dialling" ? null : duration_ms} />,
  },
  {
    id: "call",
    head: <span className="sr-only">{words.columns.call}</span>,
    align: "end",
    cell: (person) => <CallLink person={person} />,
  },
];

/** The way to the last attempt, if there was one: a number on the do-not-call list has none. */
function CallLink({ person }: { person: Person }) {
  const { state, attempts, call_id: callId, number } = person;
  const look = "inline-block min-h-6 leading-6 text-accent hover:underline";
  if (!callId || attempts === 0 || state === "claimed") return null;
  if (state === "dialling") {
    return (
      <Link
        to="/live"
        search={{ call: callId }}
        className={look}
        aria-label={words.followOf(number)}
      >
        {words.follow}
      </Link>
    );
  }
  return (
    <Link
      to="/calls/$callId"
      params={{ callId }}
      className={look}
      aria-label={words.openOf(number)}
    >
      {words.open}
    </Link>
  );
}
