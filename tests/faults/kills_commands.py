"""Kills while `sluice run` works with real Kafka and real Spark, as a user or a cron job types it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from local.versions import ROOT
from tests.faults import kills_events
from tests.faults.kills_points import ENVIRONMENT, SITE, Order, give, obeyed
from tests.faults.kills_state import Place
from tests.faults.kills_trials import SLICES, Trials

DONE_SECONDS = 400


def publish(bootstrap: str, topic: str, sent: list[kills_events.Sent]) -> None:
    """In order, with acks=all; record times are of the past: the topic must not expire them."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        config = {"retention.ms": "-1"}
        admin.create_topics([NewTopic(topic, kills_events.PARTITIONS, 1, topic_configs=config)])
    with closing(KafkaProducer(bootstrap_servers=bootstrap, acks="all")) as producer:
        answers = [producer.send(topic, s.payload, partition=s.partition, timestamp_ms=s.at_ms) for s in sent]
        assert [a.get(30).offset for a in answers] == [s.offset for s in sent]


@dataclass
class Commands:
    """`sluice run` over the hours of `trials`, with Spark; every process obeys its orders."""

    trials: Trials
    environment: Mapping[str, str]
    said: list[str] = field(default_factory=list)

    def start(self, place: Place, mode: str) -> subprocess.Popen:
        words = [Path(sys.executable).with_name("sluice"), "run", "p", "--config", self.write_pipeline(place)]
        words += ["--from", SLICES.start.isoformat(), "--to", SLICES.end.isoformat(), "--mode", mode]
        with self._log.open("ab") as log:
            return subprocess.Popen(words, env=self.child_environment, stdout=log, stderr=log)

    def run(self, place: Place, mode: str) -> int:
        return self.start(place, mode).wait(DONE_SECONDS)

    def obeys(self, mode: str, order: Order, *, survives: bool = False) -> None:
        """As Trials.obeys; `survives`: the killed run itself does all that was to be done."""
        place = self.trials.place(mode)
        give(self.trials.orders, order)
        code = self.run(place, mode)
        assert obeyed(self.trials.orders), f"{order} was not obeyed: {code}, {self.log}"
        assert (code == 0) == survives, f"the killed run ended with {code}, {self.log}"
        if survives:
            self.trials.check(place)
        self.again(place, mode)

    def again(self, place: Place, mode: str) -> None:
        assert self.run(place, mode) == 0, self.log
        self.trials.check(place)
        self.trials.done_with(place)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    @property
    def _log(self) -> Path:
        return self.trials.folder / "commands.log"

    @property
    def child_environment(self) -> dict[str, str]:
        return {
            **self.environment,
            ENVIRONMENT: str(self.trials.orders),
            "AIRFLOW_CONN_CLICKHOUSE_DEFAULT": self.trials.server.at.variable,
            "PYTHONPATH": os.pathsep.join(map(str, (SITE, ROOT / "plugins", ROOT))),
        }

    def write_pipeline(self, place: Place) -> Path:
        tables = {
            "click": {"table": f"{place.database}.{kills_events.VIEWED}", "evolve": "add", "evolve_rows": 1},
            "*": f"{place.database}.{kills_events.PLAIN}",
        }
        kafka = {"cluster": kills_events.CLUSTER, "bootstrap": self.trials.bootstrap}
        spec = {
            "kafka": [{**kafka, "topics": [self.trials.topic]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{place.lake.parent}",
            "rejected": {"fail_above": 1},
            "rows_per_read": 5,
            "tables": tables,
            "clickhouse": {"lease": "1s"},
        }
        path = self.trials.folder / "pipelines" / "p.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(spec))
        return path
