// The file that `zeus context --plot` writes: sessions as charts, from values inside the file. It asks for nothing.

import { render } from "preact";
import { useState } from "preact/hooks";
import { browserLanguage, setLanguage, t } from "./i18n";
import type { Ledger } from "./ledger";
import { ChartCard, columnsOf, Figures, StepCard, useStepKeys } from "./overview";
import { drawVisibly } from "./visible";

function Session(props: { ledger: Ledger; hasKeys: boolean; least: number }) {
  const { ledger } = props;
  const [steps] = useState(() => columnsOf(ledger));
  const [number, choose] = useState(steps[steps.length - 1]?.number ?? 0);
  const at = steps.findIndex((each) => each.number === number);
  useStepKeys(props.hasKeys ? steps : [], at, choose);
  return (
    <section class="session" aria-label={ledger.session}>
      <h1>{ledger.session}</h1>
      {ledger.problems.map((each) => <p class="banner problem">{each}</p>)}
      {steps.length ? (
        <>
          <Figures ledger={ledger} last={steps[steps.length - 1]} />
          <ChartCard steps={steps} chosen={number} choose={choose} least={props.least} />
          <StepCard steps={steps} at={at} choose={choose} />
        </>
      ) : <p class="empty">{t("Nothing to show yet: the first model call makes the first step.")}</p>}
    </section>
  );
}

function Plot({ ledgers }: { ledgers: Ledger[] }) {
  const least = Math.max(0, ...ledgers.flatMap(columnsOf).map((each) => each.sent_tokens));
  return <div class="wide">{ledgers.map((each, at) => <Session key={at} ledger={each} hasKeys={ledgers.length === 1} least={ledgers.length > 1 ? least : 0} />)}</div>;
}

drawVisibly();
setLanguage(browserLanguage());
render(<Plot ledgers={JSON.parse(document.getElementById("data")!.textContent!)} />, document.getElementById("plot")!);
