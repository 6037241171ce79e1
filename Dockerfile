# Two images from one file: `web` for the server (without torch and ray), `worker` for fleets.
# To pin a base image, pass its digest: --build-arg PYTHON_IMAGE=python:3.13-slim-trixie@sha256:…
ARG NODE_IMAGE=node:22-bookworm-slim
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${NODE_IMAGE} AS dashboard
WORKDIR /app/frontend
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY frontend ./
RUN npm run build

FROM ${PYTHON_IMAGE} AS guide
WORKDIR /app
COPY requirements requirements
RUN pip install --no-cache-dir --require-hashes -r requirements/docs.txt
COPY mkdocs.yml ./
COPY docs docs
RUN zensical build --strict

FROM ${PYTHON_IMAGE} AS source
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    MALLOC_ARENA_MAX=2 \
    DJANGO_SETTINGS_MODULE=config.settings.base \
    ROLLDECK_VAR=/var/lib/rolldeck
RUN useradd --system --uid 10001 --home-dir /var/lib/rolldeck --create-home rolldeck
WORKDIR /app
COPY pyproject.toml hatch_build.py LICENSE manage.py ./
COPY requirements requirements
COPY platform platform
COPY client client
COPY runs runs
COPY buffer buffer
COPY rollouts rollouts
COPY frontend/*.py frontend/
COPY frontend/templates frontend/templates
COPY --from=dashboard /app/frontend/dist frontend/dist
COPY --from=guide /app/build/docs build/docs

FROM source AS web
# Every package has a hash. Compiled here once instead of at every start of a process.
RUN pip install --require-hashes -r requirements/web.txt \
    && pip install --no-deps --no-build-isolation -e ./client -e . \
    && python -m compileall -q platform client runs buffer rollouts frontend
# The same values as for web processes in config/embedded/parts.py.
ENV MALLOC_MMAP_THRESHOLD_=33554432 \
    MALLOC_TRIM_THRESHOLD_=67108864
USER rolldeck
EXPOSE 8000
CMD ["python", "-m", "config.web", "0.0.0.0:8000", "2"]

FROM source AS worker
# For another build of torch than the locked one, pass its index and a lock with its hashes:
#   docker build --target worker --build-arg PIP_EXTRA_INDEX_URL=… \
#     --build-arg WORKER_REQUIREMENTS=requirements/worker-mine.txt
ARG PIP_EXTRA_INDEX_URL=""
ARG WORKER_REQUIREMENTS=requirements/worker.txt
RUN pip install --require-hashes -r ${WORKER_REQUIREMENTS} \
    && pip install --no-deps --no-build-isolation -e ./client -e . \
    && python -m compileall -q platform client runs buffer rollouts frontend
USER rolldeck
EXPOSE 6379 6380
CMD ["python", "-m", "rollouts.fleet.gateway.node", "ray-head:6379"]
