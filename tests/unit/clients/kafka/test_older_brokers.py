"""What is asked of brokers that are older than the client."""

from __future__ import annotations

from types import SimpleNamespace

from sluice.clients.kafka.settings import KafkaSettings
from sluice.clients.kafka.topic_facts import TopicInquiry


class Older:
    """kafka-python's client, as it is with a broker of 3.0: it looks for a field that the answer lacks."""

    _manager = SimpleNamespace(cluster=SimpleNamespace(brokers=lambda: {"b1", "b2", "b3"}))

    def describe_cluster(self) -> dict:
        raise KeyError("endpoint_type")


def test_brokers_are_counted_without_their_newer_answer():
    settings = KafkaSettings.__new__(KafkaSettings)
    assert TopicInquiry(settings, Older()).brokers() == 3
