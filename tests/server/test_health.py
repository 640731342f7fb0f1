"""Sensors, thresholds and the room that models need."""
import re
import subprocess
import time

import pytest
import requests

from conftest import GOLDEN, SERVER


@pytest.fixture
def sensors(tmp_path):
    monitor = tmp_path / "class/hwmon/hwmon0"
    monitor.mkdir(parents=True)
    (monitor / "name").write_text("k10temp\n")
    (monitor / "temp1_input").write_text("41000\n")
    (monitor / "temp2_input").write_text("55500\n")
    other = tmp_path / "class/hwmon/hwmon1"  # a disk: not the processor's
    other.mkdir()
    (other / "name").write_text("nvme\n")
    (other / "temp1_input").write_text("99000\n")
    for cpu in ("cpu0", "cpu1"):
        counters = tmp_path / "devices/system/cpu" / cpu / "thermal_throttle"
        counters.mkdir(parents=True)
        (counters / "core_throttle_count").write_text("3\n")
    power = tmp_path / "class/powercap/intel-rapl:0"
    power.mkdir(parents=True)
    (power / "energy_uj").write_text("1000000\n")
    return tmp_path


def heat(sensors, degrees):
    (sensors / "class/hwmon/hwmon0/temp2_input").write_text(f"{degrees * 1000}\n")
    time.sleep(1.1)  # the server looks once a second


def metrics(server):
    text = requests.get(server.url + "/metrics").text
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")


def test_temperatures_warn_and_pause(start, store, sensors):
    server = start("--sensors", str(sensors), "--warn-temperature", "80", "--pause-temperature", "95")

    def cpu():
        return requests.get(server.url + "/devices").json()["devices"][0]

    def ask(path="/api/generate", **more):
        return requests.post(server.url + path, json={"model": "tiny", "prompt": "x", "stream": False, **more})

    device = cpu()
    assert device["name"] == "cpu" and device["temperature_c"] == 55.5 and device["state"] == "ok"
    assert device["throttle_events"] == 6 and device["total_bytes"] > device["free_bytes"] > 0
    assert requests.get(server.url + "/health").json() == {"status": "ok"}
    assert ask().ok
    heat(sensors, 85)
    assert cpu()["state"] == "warm"
    assert requests.get(server.url + "/health").json() == {"status": "ok", "warning": "cpu is at 85 degrees"}
    assert ask().ok
    assert any("warning: cpu is at 85 degrees" in line for line in server.log)
    heat(sensors, 96)
    health = requests.get(server.url + "/health")
    assert health.status_code == 503 and health.json()["error"]["type"] == "unavailable_error"
    for refused in (ask(), ask("/v1/completions"), ask("/api/embed", input="x")):
        assert refused.status_code == 503 and refused.headers["Retry-After"] and "96 degrees" in refused.text
    values = metrics(server)
    assert float(values['coterie_device_temperature_celsius{device="cpu"}']) == 96
    assert values['coterie_device_state{device="cpu"}'] == "2"
    assert requests.get(server.url + "/api/tags").ok
    heat(sensors, 60)
    assert ask().ok and cpu()["state"] == "ok"
    (sensors / "class/powercap/intel-rapl:0/energy_uj").write_text("21000000\n")
    time.sleep(1.1)
    assert 1 < cpu()["power_w"] <= 20
    server.end()


def test_metrics_are_prometheus_text(server):
    requests.post(server.url + "/api/generate", json={"model": "tiny", "prompt": "x", "stream": False})
    reply = requests.get(server.url + "/metrics")
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    kinds, seen = {}, set()
    family = None
    for line in reply.text.splitlines():
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family not in kinds and kind in ("counter", "gauge")
            kinds[family] = kind
        elif not line.startswith("#"):
            name, labels, value = re.fullmatch(r'([a-z0-9_:]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (\S+)', line).groups()
            assert name == family and (name, labels) not in seen  # samples follow their family's line
            seen.add((name, labels))
            float(value)
    assert kinds["coterie_device_memory_bytes"] == "gauge" and kinds["coterie_requests_total"] == "counter"


def test_metrics_as_prometheus_reads_them(server):
    parser = pytest.importorskip("prometheus_client.parser")
    body = {"model": "tiny", "prompt": "x", "stream": False, "options": {"num_predict": 3, "temperature": 0}}
    spent = requests.post(server.url + "/api/generate", json=body).json()

    def families():
        read = list(parser.text_string_to_metric_families(requests.get(server.url + "/metrics").text))
        assert len({family.name for family in read}) == len(read)
        return {family.name: family for family in read}

    before = families()
    again = requests.post(server.url + "/api/generate", json=body).json()
    after = families()
    assert {family.type for family in after.values()} == {"counter", "gauge"}
    grown = after["llamacpp:tokens_predicted"].samples[0].value - before["llamacpp:tokens_predicted"].samples[0].value
    assert grown == again["eval_count"] == spent["eval_count"]
    pages = {s.labels["model"]: s.value for s in after["coterie_model_pages"].samples}
    assert pages["tiny:latest"] > 0, pages
    answered = {(s.labels["path"], s.labels["status"]) for s in after["coterie_requests"].samples}
    assert ("/api/generate", "200") in answered


def test_a_model_that_can_not_fit_is_refused_with_the_plans_sentence(start, tmp_path):
    tool = SERVER.parent / "coterie"
    subprocess.run([tool, "synth", "--like", "qwen3-235b", str(tmp_path / "big.gguf"), "--header-only"], check=True,
                   capture_output=True)
    (tmp_path / "llama.gguf").write_bytes((GOLDEN / "llama.gguf").read_bytes())
    server = start("--models-dir", str(tmp_path))
    assert requests.post(server.url + "/api/generate", json={"model": "llama"}).ok
    reply = requests.post(server.url + "/api/generate", json={"model": "big"})
    assert reply.status_code == 500
    assert re.search(r"big:latest does not fit on this machine; .*needs .* and has .*bytes too many", reply.json()["error"])
    reply = requests.post(server.url + "/v1/chat/completions", json={"model": "big", "messages": [{"role": "user", "content": "x"}]})
    assert "does not fit" in reply.json()["error"]["message"]
    loaded = [m["name"] for m in requests.get(server.url + "/api/ps").json()["models"]]
    assert loaded == ["llama:latest"]  # nobody went for it
    assert requests.post(server.url + "/api/generate", json={"model": "llama", "prompt": "x", "stream": False}).ok
    server.end()


@pytest.fixture
def trio(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.gguf").write_bytes((GOLDEN / "llama.gguf").read_bytes())
    return tmp_path


def load(server, name, **more):
    return requests.post(server.url + "/api/generate", json={"model": name, **more})


def loaded(server):
    return {m["name"][0]: m for m in requests.get(server.url + "/api/ps").json()["models"]}


def test_room_is_made_by_the_plan(start, trio):
    probe = start("--models-dir", str(trio), "--ctx", "256")
    load(probe, "a")
    size = loaded(probe)["a"]["size"]
    probe.end()
    server = start("--models-dir", str(trio), "--ctx", "256", "--max-memory", str(size * 5 // 2))
    for name in ("a", "b", "a", "c"):  # b was used longest ago
        assert load(server, name).ok
    assert set(loaded(server)) == {"a", "c"}
    assert load(server, "b").ok
    assert set(loaded(server)) == {"b", "c"}
    server.end()
    small = start("--models-dir", str(trio), "--ctx", "256", "--max-memory", "1000")
    reply = load(small, "a")
    assert reply.status_code == 500 and "--max-memory" in reply.json()["error"]
    small.end()


def test_models_kept_for_ever_go_last(start, trio):
    server = start("--models-dir", str(trio), "--ctx", "256", "--max-models", "2")
    load(server, "a", keep_alive=-1)
    load(server, "b")
    load(server, "c")
    assert set(loaded(server)) == {"a", "c"}
    assert loaded(server)["a"]["expires_at"] > "2100"
    server.end()
