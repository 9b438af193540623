"""Avro and Protobuf: messages that have to be decoded before they can be read as JSON."""
