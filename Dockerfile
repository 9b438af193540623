# Airflow's own image with Sluice, Java and Spark's Kafka source: what docker-compose.yaml runs everywhere.
#
# Its version is that of requirements.txt (a test compares). `make pin-images` pins the very bytes, by the digest that
# the registry has for this version.
FROM apache/airflow:3.3.2-python3.11

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
USER 0
# The newest security updates of Java are wanted, so its version is not pinned.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends default-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o airflow /opt/sluice /opt/airflow/logins

# The image's user airflow.
USER 50000
WORKDIR /opt/sluice
# First what changes seldom, so that packages and jars stay in the build's cache.
COPY --chown=airflow requirements.txt requirements-cluster.txt requirements-setup.txt ./
# Of the second file only PostgreSQL's driver, which needs nothing else.
RUN pip install --no-cache-dir --require-hashes -r requirements.txt \
 && pip install --no-cache-dir --require-hashes -r requirements-setup.txt \
 && sed -n '/^psycopg2-binary==/,/[^\\]$/p' requirements-cluster.txt > /tmp/driver.txt \
 && pip install --no-cache-dir --no-deps --require-hashes -r /tmp/driver.txt
COPY --chown=airflow local ./local
RUN python -m local.fetch spark
COPY --chown=airflow . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e .

ENV SLUICE_SPARK_JARS=/opt/sluice/.deps/spark-kafka-4.2.0 PYSPARK_PYTHON=python
