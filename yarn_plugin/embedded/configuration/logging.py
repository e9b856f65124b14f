"""log4j2.properties: one small rolling file for each daemon."""

from pathlib import Path

_TEMPLATE = """\
status = error
name = daemon

appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %-5p %c{{1}}: %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2

rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


def write_log4j(path: Path, log: Path) -> None:
    """Let a daemon log to `log`: at most three files of 20 MB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_TEMPLATE.format(log=log))
