// The support bundle: its contents before it is made, then the file.
import { useState } from "react";

import { api, sentence, useGet } from "../../app/api.ts";
import { Answer } from "../../parts/answer.tsx";
import { Button } from "../../parts/button.tsx";
import { Section } from "../../parts/page.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/engine.ts";

const NAME = "cordboard-support.zip";

export function Support() {
  const contents = useGet("/api/v1/engine/bundle/contents");
  const [making, setMaking] = useState(false);
  const download = async () => {
    setMaking(true);
    try {
      const { data } = await api.GET("/api/v1/engine/bundle", { parseAs: "blob" });
      if (data instanceof Blob) save(data);
      toast(words.support.done);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      toast.bad(sentence(error));
    } finally {
      setMaking(false);
    }
  };
  return (
    <Section
      title={words.support.title}
      actions={
        <Button look="primary" icon="download" busy={making} onClick={download}>
          {words.support.download}
        </Button>
      }
    >
      <p className="max-w-prose">{words.support.about}</p>
      <p role="status" className="min-h-6 text-muted">
        {making && words.support.making}
      </p>
      <h3 className="mb-1">{words.support.contents}</h3>
      <Answer query={contents}>
        {({ parts }) => (
          <dl className="grid grid-cols-[max-content_1fr] gap-x-6 gap-y-1 phone:grid-cols-1">
            {parts.map(({ name, about }) => (
              <div key={name} className="contents">
                <dt className="font-mono text-xs leading-6">{name}</dt>
                <dd className="text-muted">{about}</dd>
              </div>
            ))}
          </dl>
        )}
      </Answer>
    </Section>
  );
}

function save(file: Blob): void {
  const address = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = address;
  link.download = NAME;
  link.click();
  URL.revokeObjectURL(address);
}
