import { useMay, useSession } from "../../app/session.ts";
import { LinkButton } from "../../parts/button.tsx";
import { Facts } from "../../parts/facts.tsx";
import { Section } from "../../parts/page.tsx";
import { words as all } from "../../words/settings.ts";

const words = all.about;

export function About() {
  const { version } = useSession();
  const maySetUp = useMay("config.draft");
  return (
    <Section title={words.title}>
      <Facts
        facts={[
          [words.version, version],
          [words.license, words.apache],
          [
            words.packages,
            <a key="packages" href="/licenses.txt" className="text-accent underline">
              licenses.txt
            </a>,
          ],
        ]}
      />
      {maySetUp && (
        <div className="mt-4">
          <LinkButton to="/setup">{words.setup}</LinkButton>
        </div>
      )}
    </Section>
  );
}
