"""The command line: `kaa NOUN VERB`, one module or package per noun, loaded only when it is used.

| module | what it owns |
|---|---|
| `broker` | `kaa broker`: runs a node in the foreground |
| `bundle` | `kaa debug bundle`: one file to hand over when something is wrong |
| `client` | what commands that talk to a cluster share: options, errors and exit codes |
| `client_log` | what of a client's log a command shows |
| `cluster` | `kaa cluster`: what a cluster is made of, and whether it is well |
| `completion` | `kaa completion`: scripts for shells |
| `completion_scripts` | the scripts of `kaa completion`, one function for each shell |
| `config` | `kaa config`: settings of topics, brokers and groups |
| `consume` | `kaa consume`: records of topics on standard output |
| `debug` | `kaa debug`: files of a node and frames of the protocol |
| `dev` | `kaa dev`: a playground: a broker, sample topics, and records that keep coming |
| `directories` | `kaa cluster dirs`, `balance-dirs` and `kaa topic move`: the disks of brokers |
| `directory_choice` | which replicas `kaa topic move` is about, and why there may be none |
| `directory_plan` | the plan of `kaa cluster balance-dirs` |
| `directory_rates` | how fast replicas move to directories |
| `doctor` | `kaa doctor`: what this installation has, what it lacks, and how to get it |
| `doctor_migrate` | `kaa doctor migrate`: what a node of Apache Kafka would miss as Kaa |
| `dump` | what stands in the files of a partition: rows for `kaa debug` |
| `extras` | what a command needs beyond the core, and which extra brings it |
| `group` | `kaa group`: consumer groups, how far they are, and how to move them |
| `host` | several nodes on this machine as one cluster, kept by one supervisor |
| `input_lines` | lines of standard input as they come, without holding up the event loop |
| `lake` | `kaa lake`: tables that are made of topics |
| `names` | names that a shell completes: topics, groups and transactional ids of a cluster |
| `offset_range` | the offset grammar: where to start reading, and where to stop |
| `offsets` | `kaa offsets`: which offsets partitions have, and which one a time stands for |
| `output` | how commands print their result: the option `-o`, one place for all of its forms |
| `partitions` | which partitions are meant, and that what may be a slip is refused |
| `perf` | `kaa perf`: how fast a cluster takes and gives records |
| `pipeline` | `kaa pipeline`: pipelines of YAML files, on Spark |
| `plain` | messages and records of internal topics as the values that JSON has |
| `produce` | `kaa produce`: lines, or JSON objects as `kaa consume -o jsonl` prints them |
| `profile` | `kaa profile`: settings of clusters under names, one of which is in use |
| `profiles` | profiles: the settings of clusters under names, in a TOML file of the user's own |
| `progress` | progress of what takes long: one line on a terminal, with rate and time left |
| `reading` | what `consume`, `tail` and others share: which partitions, from where, up to where |
| `record_format` | format strings for records, with kcat's letters and rpk's braces |
| `registry` | records that were written with a schema registry, decoded for people |
| `root` | the program `kaa`: a table of its commands, each loaded when it is called |
| `samples` | made-up data for the playground: a small shop, drawn from a seed |
| `secrets` | takes secrets out of text that is handed to others |
| `spark_run` | work on Spark that a signal brings to an end |
| `consume_share` | `kaa consume --share`: records as one of the consumers of a share group |
| `share` | `kaa share`: share groups, how much is left for them, and how to move them |
| `standard_streams` | standard input and output that are closed, or full |
| `storage` | `kaa storage`: what Kafka's storage tool does |
| `tail` | `kaa tail`: records as they arrive, for people who watch |
| `template` | `-o template=TEXT`: one line per row, of which braces are filled in |
| `tier` | `kaa tier`: remote storage, compared with what the cluster says of it |
| `tier_jobs` | `kaa tier audit`, `kaa tier convert`: jobs over remote storage |
| `topic` | `kaa topic`: topics of any Kafka cluster |
| `txn` | `kaa txn`: transactions, which of them are open, and how to end those that nobody will |
| `version` | `kaa version` |
| `visible` | text of others on a terminal: what would steer it is printed escaped |
| `command` | the classes of all commands: nouns are groups of verbs, and verbs share options |
| `supervisor` | several nodes on this machine, kept by one supervisor |
"""


def main() -> None:
    """Runs the program `kaa`."""
    from kaa.cli.root import root
    from kaa.cli.standard_streams import open_streams

    open_streams()
    root(prog_name="kaa")
