# syntax=docker/dockerfile:1
FROM node:22-bookworm-slim AS assets
WORKDIR /src/static
COPY static/ ./
RUN ./build.sh

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
COPY --from=assets /src/static/dist ./static/dist
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/fusebox ./cmd/fusebox

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin fusebox
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/fusebox /usr/local/bin/fusebox
USER 10001
EXPOSE 8080
ENV FUSEBOX_LISTEN=0.0.0.0:8080
ENTRYPOINT ["fusebox"]
CMD ["serve"]
