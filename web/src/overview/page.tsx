/** The first page: what passes, what is refused, who is refused, and whether everything runs. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { type Filter, type Grouping, type TrafficReport, useTraffic } from "../api/analytics";
import { useDomain } from "../app/domain";
import { zone } from "../format/time";
import { Freshness } from "../ui/freshness";
import { Notice } from "../ui/notice";
import { Page, Panel } from "../ui/page";
import { Loaded } from "../ui/state";
import { Changes } from "./changes";
import { TrafficChart } from "./chart";
import { FilterControl, LiveSwitch, RangeControl } from "./controls";
import { FirstTraffic } from "./first-traffic";
import { Fleet } from "./fleet";
import { Offenders } from "./offenders";
import classes from "./page.module.css";
import { type Range, readRange, writeRange } from "./range";
import { groupLines, outcomeLines, totalsOf } from "./series";
import { Tiles } from "./tiles";

export default function OverviewPage() {
  const domain = useDomain();
  const search = useSearch({ from: "/shell/" });
  const navigate = useNavigate();
  const { range, problem } = readRange(search);
  const [running, setRunning] = useState(true);
  const moving = "preset" in range;
  const live = running && moving;
  const by: Grouping = search.by === "rule" || search.by === "tier" ? search.by : "outcome";
  const filter: Filter = { rule: search.rule, tier: search.tier };
  const traffic = useTraffic(domain, range, by, filter, live);
  const change = (part: Partial<typeof search>) =>
    void navigate({ to: "/", search: (old) => ({ ...old, ...part }), replace: true });
  const changeRange = (chosen: Range) => change(writeRange(chosen));

  return (
    <Page
      title="Overview"
      lead={`What passes and what is refused. Times in ${zone()}.`}
      actions={
        <>
          <Freshness updatedAt={traffic.dataUpdatedAt} error={traffic.error} live={live} />
          {moving && <LiveSwitch live={live} onChange={setRunning} />}
          <RangeControl range={range} onRange={changeRange} />
        </>
      }
    >
      {problem && (
        <Notice tone="warn" title="This range cannot be shown" urgent>
          {problem} Showing the last 15 minutes.
        </Notice>
      )}
      <Loaded query={traffic} rows={8}>
        {(report) => (
          <div
            className={classes.body}
            data-waiting={traffic.isPlaceholderData || undefined}
            aria-busy={traffic.isPlaceholderData}
          >
            <Report
              domain={domain}
              report={report}
              by={by}
              filter={filter}
              needle={search.subject ?? ""}
              onChange={change}
              onRange={changeRange}
            />
          </div>
        )}
      </Loaded>
    </Page>
  );
}

interface ReportProps {
  domain: string;
  report: TrafficReport;
  by: Grouping;
  filter: Filter;
  needle: string;
  onChange: (part: {
    rule?: string | undefined;
    tier?: string | undefined;
    by?: string | undefined;
    subject?: string | undefined;
  }) => void;
  onRange: (range: Range) => void;
}

function Report({ domain, report, by, filter, needle, onChange, onRange }: ReportProps) {
  const { window, series, summary, subjects, revisions } = report;
  const totals = totalsOf(series);
  const lines = by === "outcome" ? outcomeLines(series, window) : groupLines(series, window, by);
  const filtered = filter.rule !== undefined || filter.tier !== undefined;
  const title = by === "outcome" ? "Requests per second" : `Denied per second, by ${by}`;
  return (
    <>
      <Tiles totals={totals} uniqueDenied={summary.unique_denied_subjects} seconds={window.to - window.from} />
      <div className={classes.columns}>
        <Panel
          title={title}
          aside={<FilterControl domain={domain} rule={filter.rule} tier={filter.tier} by={by} onChange={onChange} />}
        >
          {totals.requests + totals.shadow === 0 && !filtered ? (
            <FirstTraffic />
          ) : (
            <>
              <TrafficChart
                label={title}
                times={series.times}
                lines={lines}
                revisions={revisions}
                onZoom={(from, to) => onRange({ from, to })}
              />
              <Changes revisions={revisions} />
            </>
          )}
        </Panel>
        <Fleet domain={domain} />
      </div>
      <Panel title="Most throttled subjects" flush aside={<span className={classes.note}>{sampled(report)}</span>}>
        <Offenders
          domain={domain}
          window={window}
          subjects={subjects}
          needle={needle}
          onNeedle={(subject) => onChange({ subject: subject === "" ? undefined : subject })}
          onRule={(rule) => onChange({ rule })}
          onTier={(tier) => onChange({ tier })}
        />
      </Panel>
    </>
  );
}

/** How far the counts can be trusted, said where they stand. */
function sampled(report: TrafficReport): string {
  const allowed = "Allowed counts from a subject’s first refusal on.";
  return report.sampled ? `Some counts are estimates. ${allowed}` : allowed;
}
