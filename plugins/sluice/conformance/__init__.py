"""Does a ClickHouse server keep what a load relies on?"""
