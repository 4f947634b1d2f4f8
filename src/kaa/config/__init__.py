"""Settings: Kafka's names, types, defaults and rules for brokers, topics, groups, clients.

`server` reads the configuration of a node, `topic` and `group` work out what one of them
gets, `dynamic` changes a running broker's, `describe` reports all of it. The tables they use
are loaded where they are used.

| module | what it owns |
|---|---|
| `addresses` | addresses as they are written in settings: hosts, ports, listeners and voters |
| `client` | the settings of producers, consumers and admin clients |
| `client_habits` | settings of a client as people write them, and what they mean by Kafka's names |
| `definition` | the definition of a set of settings: one table for all uses |
| `directories` | the names of a node's directories, as it uses and shows them |
| `development` | what a node runs with when nobody gives it a file: one node on this machine |
| `entity` | settings of client metrics subscriptions, users, clients and IP addresses |
| `environment` | `KAFKA_*` environment variables as settings, by the rule of the Apache image |
| `listeners` | which listeners a node opens, what it tells others |
| `properties` | Java's `.properties` text: reading and writing |
| `reachability` | whether controllers can reach each other, and who else can |
| `reference` | the reference of all settings as Markdown, written from the tables |
| `sources` | where static settings come from, and which one counts |
| `unsupported` | settings of Kafka that this version does not have, and what follows from that |
| `validators` | what a value must fulfil besides its type |
| `values` | the text of a setting turned into a typed value, and back |
| `broker` | the settings of a broker: Kafka's, and the few of Kaa |
| `describe` | settings as DescribeConfigs reports them |
| `dynamic` | broker settings that change while the broker runs, kept in the cluster's metadata |
| `group` | the settings of a group: defaults and bounds come from the broker |
| `rules` | rules of a broker that tie several settings together |
| `server` | the configuration of one node |
| `tables` | the tables of settings, a module for each area |
| `topic` | the settings of a topic |
"""

from kaa.config.definition import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigProblem,
    ConfigValues,
    InvalidConfigError,
    UpdateMode,
)
from kaa.config.values import ConfigError, ConfigType, ConfigValue, Importance, Password

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigError",
    "ConfigKey",
    "ConfigProblem",
    "ConfigType",
    "ConfigValue",
    "ConfigValues",
    "Importance",
    "InvalidConfigError",
    "Password",
    "UpdateMode",
]
