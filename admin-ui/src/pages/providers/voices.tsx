import { useEffect, useState } from "react";

import { api, type Schema, sentence, useGet } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty, Loading } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Field, TextArea } from "../../parts/field.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/providers.ts";
import { greetingOf } from "./greeting.ts";

type Voice = Schema<"Voice">;

const say = words.voices;
const MOST_TEXT = 300;

/** The voices of the pipelines, each with a sample of one's own greeting. */
export function Voices() {
  const voices = useGet("/api/v1/voices", { query: {} });
  const config = useGet("/api/v1/config", undefined, { enabled: useMay("config.read") });
  return (
    <Answer query={voices}>
      {({ voices }) =>
        voices.length === 0 ? (
          <Empty icon="headphones" title={say.none}>
            {say.noneHint}
          </Empty>
        ) : config.isLoading ? (
          <Loading />
        ) : (
          <ul className="grid gap-4 lg:grid-cols-2">
            {voices.map((voice) => (
              <VoiceCard
                key={voice.id}
                voice={voice}
                greeting={greetingOf(config.data?.tree, voice.used_by) ?? say.standard}
              />
            ))}
          </ul>
        )
      }
    </Answer>
  );
}

function VoiceCard({ voice, greeting }: { voice: Voice; greeting: string }) {
  const mayPlay = useMay("providers.check");
  const [text, setText] = useState(greeting.slice(0, MOST_TEXT));
  const sample = useSample(voice.id);
  return (
    <li className="grid content-start gap-3 rounded-lg border border-line bg-raised p-4">
      <div className="flex flex-wrap items-center gap-2">
        <h2>{voice.id}</h2>
        <span className="text-muted">
          {[voice.type, voice.model, voice.voice || say.own].filter(Boolean).join(" · ")}
        </span>
        <span className="ml-auto">
          <Badge tone={voice.paid ? "warn" : "neutral"}>{voice.paid ? say.paid : say.free}</Badge>
        </span>
      </div>
      <p className="text-xs text-muted">
        {voice.used_by.length > 0 ? say.usedBy(voice.used_by) : say.unused}
      </p>
      {mayPlay ? (
        <form
          className="grid gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            void sample.speak(text);
          }}
        >
          <Field label={say.text} hint={say.hint}>
            <TextArea
              required
              rows={2}
              maxLength={MOST_TEXT}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          </Field>
          <div className="flex flex-wrap items-center gap-3">
            <Button type="submit" icon="play" busy={sample.busy}>
              {say.play}
            </Button>
            {sample.url && (
              // biome-ignore lint/a11y/useMediaCaption: the words stand in the field above
              <audio
                controls
                autoPlay
                src={sample.url}
                aria-label={say.sound(voice.id)}
                className="h-8 min-w-0 flex-1"
              />
            )}
          </div>
        </form>
      ) : (
        <p className="text-muted">{say.mayNot}</p>
      )}
    </li>
  );
}

/** The sound of the last sample, under an address that lasts as long as it is shown. */
function useSample(voice: string) {
  const [url, setUrl] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  const speak = async (text: string) => {
    setBusy(true);
    try {
      const { data } = await api.POST("/api/v1/voices/{voice}/sample", {
        params: { path: { voice } },
        body: { text },
        parseAs: "blob",
      });
      if (data) setUrl(URL.createObjectURL(data));
    } catch (error) {
      toast.bad(error instanceof Error ? sentence(error) : String(error));
    } finally {
      setBusy(false);
    }
  };
  return { url, busy, speak };
}
