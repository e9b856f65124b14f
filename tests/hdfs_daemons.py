"""A real NameNode and DataNode on loopback, as the embedded cluster starts them, without YARN."""

import getpass
import os
import signal
import time
import uuid
from dataclasses import replace
from urllib.parse import quote, urlsplit

import requests

from themis_agent.trial.webhdfs import HdfsStore
from yarn_plugin.embedded import configuration, daemons, java, processes, readiness
from yarn_plugin.embedded.cluster import ClusterSpec
from yarn_plugin.embedded.directory import ClusterRecord, Layout
from yarn_plugin.embedded.ports import RM_HOST, free_base


class Hdfs:
    """Both run when it is made. `url`: of the root, for stores."""

    def __init__(self, directory):
        spec = ClusterSpec(directory, nodes=1, racks=1, hdfs=True)
        spec = replace(spec, port_base=free_base(spec.hosts, hdfs=True, start=27000))
        runtime = java.find_java()
        jars = java.class_path(runtime, spec.ivy_settings, print)
        self._record = ClusterRecord(id=uuid.uuid4().hex, spec=spec, java=runtime.home, jars=jars, cgroups={})
        configuration.write(spec, self._record.id, getpass.getuser())
        for needed in (Layout(directory).logs, Layout(directory).temporary):
            needed.mkdir(parents=True)
        self.authority = f"{RM_HOST}:{spec.ports.name_node_web}"
        self.url = f"webhdfs://{self.authority}"
        self._pids = {}
        try:
            daemons.format_hdfs(self._record)
            self.start("nn", "dn")
        except BaseException:
            self.close()
            raise

    def start(self, *names):
        for name in names:
            self._pids[name] = daemons.start(self._record, name)
        readiness.wait(self._record, ("nn", "dn"))

    def kill(self, name):
        os.kill(self._pids[name], signal.SIGKILL)
        while name in processes.daemons(self._record.id):
            time.sleep(0.05)

    def store(self, path):
        """A store, whose folder exists."""
        made = HdfsStore(self.url + quote(path))
        made.make_folder("")
        return made

    def set_name_quota(self, store, names):
        path = urlsplit(store.url).path
        query = {"op": "SETQUOTA", "namespacequota": names, "user.name": getpass.getuser()}
        answer = requests.put(f"http://{self.authority}/webhdfs/v1{path}", params=query, timeout=10)
        assert answer.status_code == 200, answer.text

    def close(self):
        processes.stop(lambda: processes.members(self._record.id), 10, "HDFS")
