(* Page 16, page one_layer_memorization/boltzmann_and_hardmax.
   Propositions 16.6 and 16.10, Theorem 16.1: boltzmann.operator, .hardmax, .before.
   R is any ordered field; exp is the exponential function, the sum of its power series
   (exponential.v), and ln is its inverse. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities exponential.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Proposition 16.6 (Log-sum-exp minus entropy) ---- *)
Section Operator.
Variables (R : realFieldType) (exp ln : R -> R).
Hypotheses (expE : exponential exp) (lnE : logarithm exp ln).
Let expD := expD expE.        Let exp_gt0 := exp_gt0 expE.        Let exp_ge := exp_ge expE.
Let lnK := lnK lnE.           Let expK := expK expE lnE.
Variable N : nat.                                                      (* n = N + 1 numbers *)
Implicit Types a : 'I_N.+1 -> R.
Definition Z (a : 'I_N.+1 -> R) := \sum_i exp (a i).
Local Notation p := (softmax exp).
Definition boltz a := \sum_i a i * p a i.                              (* (16.4) *)
Definition S (q : 'I_N.+1 -> R) := - \sum_i q i * ln (q i).            (* entropy *)

Lemma pE a i : p a i = exp (a i) / Z a. Proof. by []. Qed.
Lemma Z_gt0 a : 0 < Z a.
Proof.
by rewrite /Z (bigD1 ord0) //= ltr_paddr // sumr_ge0 // => i _; apply: ltW.
Qed.
Lemma p_sum a : \sum_i p a i = 1.
Proof. by rewrite -mulr_suml mulfV // gt_eqF // Z_gt0. Qed.

(* (16.5), first line: multiply ln p_i = a_i - ln Z by p_i and add up. *)
Theorem log_sum_exp a : boltz a = ln (Z a) - S (p a).
Proof.
have lnp i : ln (p a i) = a i - ln (Z a).
  rewrite -[RHS]expK; congr ln; rewrite pE; apply: (mulIf (lt0r_neq0 (Z_gt0 a))).
  by rewrite divfK ?lt0r_neq0 ?Z_gt0 // -{2}(lnK (Z_gt0 a)) -expD subrK.
rewrite /S opprK -[ln (Z a)]mulr1 -(p_sum a) mulr_sumr -big_split /=.
by apply: eq_bigr => i _; rewrite lnp; ident.
Qed.

(* (16.5), second line; omega e^omega = (n - 1) / e. *)
Variable omega : R.
Hypothesis omegaE : omega * exp omega = N%:R / exp 1.
Theorem drop a (i0 : 'I_N.+1) : (forall i, a i <= a i0) ->
  a i0 - omega <= boltz a /\ boltz a <= a i0.
Proof.
move=> max; have Z0 := Z_gt0 a.
have bE : boltz a = (\sum_i a i * exp (a i)) / Z a.
  by rewrite mulr_suml; apply: eq_bigr => i _; rewrite mulrA.
rewrite bE ler_pdivl_mulr // ler_pdivr_mulr //; split; last first.
  by rewrite /Z mulr_sumr; apply: ler_sum => i _; rewrite ler_wpmul2r // ltW.
(* (M - a_i - omega) e^(a_i) <= e^(M - 1 - omega), from 1 + y <= e^y. *)
set M := a i0; have term i : (M - a i - omega) * exp (a i) <= exp (M - 1 - omega).
  have -> : M - 1 - omega = (M - 1 - omega - a i) + a i by rewrite subrK.
  rewrite expD ler_wpmul2r ?(ltW (exp_gt0 _)) //.
  by have -> : M - a i - omega = 1 + (M - 1 - omega - a i) by ident.
rewrite -subr_le0 /Z mulr_sumr -sumrB (bigD1 i0) //= -/M.
have -> : (M - omega) * exp M - M * exp M = - (omega * exp M) by ident.
rewrite addrC subr_le0; apply: le_trans (_ : \sum_(i < N.+1 | i != i0) exp (M - 1 - omega) <= _).
  by apply: ler_sum => i _; apply: le_trans (term i); rewrite le_eqVlt; apply/orP; left;
    apply/eqP; ident.
(* Together (n - 1) e^(M - 1 - omega) = omega e^M. *)
rewrite sumr_const cardC1 card_ord /= -mulr_natl.
have -> : N%:R = omega * exp omega * exp 1 by rewrite omegaE divfK // lt0r_neq0.
by rewrite -!mulrA -!expD; have -> : omega + (1 + (M - 1 - omega)) = M by ident.
Qed.

(* omega <= ln n. *)
Theorem drop_small : omega <= ln N.+1%:R.
Proof.
have n0 : 0 < N.+1%:R :> R by rewrite ltr0n.
have e1 : 1 <= exp 1 by apply: le_trans (exp_ge 1); rewrite ler_addl ler01.
set l := ln _; have el : exp l = N.+1%:R := lnK n0.
(* n - 1 <= n ln n, from 1 - ln n <= e^(- ln n). *)
have Nl : N%:R <= l * N.+1%:R.
  have := exp_ge (- l); rewrite -(ler_pmul2r n0) -{2}el -expD addNr (exp0 expE).
  by rewrite mulrDl mul1r mulNr ler_subl_addl -addn1 natrD ler_add2r.
have l0 : 0 <= l by rewrite -(pmulr_lge0 _ n0) (le_trans _ Nl) ?ler0n.
rewrite leNgt; apply/negP => lw.
have : l * N.+1%:R < omega * exp omega by rewrite ltr_pmul ?ler0n // -el (exp_lt expE).
rewrite omegaE ltNge => /negP; apply; apply: le_trans Nl.
by rewrite ler_pdivr_mulr // ler_pemulr // ler0n.
Qed.

(* The lower bound is attained: one entry 0, the others - omega - 1; the upper by equal entries. *)
Theorem drop_attained : exists a : 'I_N.+1 -> R,
  (forall i, a i <= a ord0) /\ boltz a = a ord0 - omega.
Proof.
have om0 : 0 <= omega.
  rewrite -(ler_pmul2r (exp_gt0 omega)) mul0r omegaE divr_ge0 ?ler0n // ltW //.
pose a (i : 'I_N.+1) := if i == ord0 then 0 else - (1 + omega).
have aN i : i != ord0 -> a i = - (1 + omega) by rewrite /a => /negbTE ->.
exists a; split=> [i|].
  rewrite /a eqxx; case: (i == ord0); first exact: lexx.
  by rewrite oppr_le0 addr_ge0 ?ler01.
have e0 : exp 0 = 1.
  by apply: (mulIf (lt0r_neq0 (exp_gt0 0))); rewrite -expD mul1r addr0.
(* (n - 1) e^(-1 - omega) = omega, so the average is - omega (1 + omega) / (1 + omega). *)
have tail : N%:R * exp (- (1 + omega)) = omega.
  have -> : N%:R = omega * exp omega * exp 1 by rewrite omegaE divfK // lt0r_neq0.
  rewrite -!mulrA -!expD; have -> : omega + (1 + - (1 + omega)) = 0 by ident.
  by rewrite e0 mulr1.
have ZE : Z a = 1 + omega.
  rewrite /Z (bigD1 ord0) //= {1}/a eqxx e0; congr (1 + _).
  by rewrite (eq_bigr _ (fun i h => congr1 exp (aN i h))) sumr_const cardC1 card_ord /= -mulr_natl.
have a0 : a ord0 = 0 by rewrite /a eqxx.
rewrite a0 sub0r /boltz (bigD1 ord0) //= a0 mul0r add0r.
rewrite (eq_bigr (fun _ => - (1 + omega) * (exp (- (1 + omega)) / (1 + omega)))) => [|i ne];
  last first.
  by rewrite pE ZE aN.
rewrite sumr_const cardC1 card_ord /= -mulr_natl.
have om1 : 1 + omega != 0 by rewrite gt_eqF // (lt_le_trans ltr01) // ler_addl.
transitivity (- (N%:R * exp (- (1 + omega))) * ((1 + omega) / (1 + omega))); first by ident.
by rewrite tail mulfV // mulr1.
Qed.
Theorem top_attained c : boltz (fun _ => c) = c.
Proof. by rewrite /boltz -mulr_sumr p_sum mulr1. Qed.
End Operator.

(* ---- Theorem 16.1 (Hardmax) ---- *)
Section Hardmax.
Variables (R : realFieldType) (d m : nat).

(* One head: scores of a query against the keys; the values whose score is largest are averaged. *)
Record head := Head { WQ : 'M[R]_(d, m); bQ : 'rV[R]_m; WK : 'M[R]_(d, m); bK : 'rV[R]_m;
                      WV : 'M[R]_d; bV : 'rV[R]_d }.
Definition score h (q x : 'rV[R]_d) : R := ((q *m WQ h + bQ h) *m (x *m WK h + bK h)^T) 0 0.
Definition mean_row (X : seq 'rV[R]_d) : 'rV[R]_d := (size X)%:R^-1 *: \sum_(x <- X) x.
Definition attend h q X := mean_row [seq x *m WV h + bV h | x <- winners (score h q) X].
Definition layer (skip : bool) hs q X := (if skip then q else 0) + \sum_(h <- hs) attend h q X.

Variables (x0 l : 'rV[R]_d).
Definition x (k : nat) := x0 + k%:R *: l.
Definition X1 := map x [:: 1; 2; 5; 6]%N.
Definition X2 := map x [:: 1; 3; 4; 6]%N.

(* The score of x k against a fixed query is affine in k. *)
Definition slope h q := ((q *m WQ h + bQ h) *m (l *m WK h)^T) 0 0.
Lemma score_diff h q i j : score h q (x i) - score h q (x j) = (i%:R - j%:R) * slope h q.
Proof.
have E k : x k *m WK h + bK h = x0 *m WK h + bK h + k%:R *: (l *m WK h).
  by rewrite mulmxDl -scalemxAl addrAC.
rewrite /score /slope !E; move: (_ + bQ h) (_ + bK h) (l *m _) => p u v.
by rewrite !linearD !linearZ /= !mxE opprD addrACA subrr add0r -mulrBl.
Qed.
Lemma score_le h q i j : (score h q (x i) <= score h q (x j)) = (0 <= (j%:R - i%:R) * slope h q).
Proof. by rewrite -score_diff subr_ge0. Qed.
(* So the order of the keys depends on the sign of the slope alone. *)
Definition cmp h q (i j : nat) := if slope h q == 0 then true else if 0 < slope h q then (i <=
  j)%N else (j <= i)%N.
Lemma score_le_nat h q i j : (score h q (x i) <= score h q (x j)) = cmp h q i j.
Proof.
rewrite score_le /cmp; case: ltrgt0P => [s0|s0|->]; last by rewrite mulr0 lexx.
  by rewrite pmulr_lge0 // subr_ge0 ler_nat.
by rewrite nmulr_lge0 // subr_le0 ler_nat.
Qed.
Lemma winnersE h q ks : winners (score h q) (map x ks) = map x [seq k <- ks | all (cmp h q ^~ k) ks].
Proof.
rewrite /winners filter_map; congr (map _ _); apply: eq_filter => k /=.
by rewrite all_map; apply: eq_all => j /=; rewrite score_le_nat.
Qed.

(* Theorem 16.1. Any number of heads hs of any rank, any weights and biases, with or without skip,
   ties averaged, no mask; q is x(1), x(6) or any other query. *)
Theorem hardmax skip hs q : layer skip hs q X1 = layer skip hs q X2.
Proof.
congr (_ + _); apply: eq_bigr => h _; rewrite /attend /X1 /X2 !winnersE /= /cmp.
case: eqP => _; last by case: (0 < _).
pose c := x0 *m WV h + bV h; pose s := l *m WV h.
have sum ks : \sum_(y <- [seq y *m WV h + bV h | y <- map x ks]) y = c *+ size ks + (\sum_(k <-
  ks) k)%:R *: s.
  rewrite !big_map (eq_bigr (fun k : nat => c + k%:R *: s)) => [|k _];
    last by rewrite mulmxDl -scalemxAl addrAC.
  by rewrite big_split /= big_const_seq count_predT iter_addr_0 -scaler_suml -natr_sum.
by rewrite /mean_row !sum !big_cons !big_nil.
Qed.
End Hardmax.


(* ---- Proposition 16.10 (A network before hardmax) ---- *)
(* Counts below base n + 1 are digits: they are determined by their sum. *)
Lemma digits n K (m m' : 'I_K -> nat) : (forall k, (m k <= n)%N) -> (forall k, (m' k <= n)%N) ->
  (\sum_k m k * n.+1 ^ k = \sum_k m' k * n.+1 ^ k)%N -> m =1 m'.
Proof.
elim: K m m' => [|K IH] m m' mn m'n; first by move=> _ [].
rewrite !big_ord_recl !muln1.
have tail f : (\sum_(i < K) f (lift ord0 i) * n.+1 ^ lift ord0 i =
               (\sum_(i < K) f (lift ord0 i) * n.+1 ^ i) * n.+1)%N.
  by rewrite big_distrl; apply: eq_bigr => i _; rewrite /= /bump add1n expnSr mulnA.
rewrite !tail => eq1; have eq0 : m ord0 = m' ord0.
  move: (congr1 (modn^~ n.+1) eq1).
  by rewrite /= !(addnC _ (_ * _)%N) !modnMDl !modn_small // ltnS.
have eqt : m \o lift ord0 =1 m' \o lift ord0.
  apply: IH => [k|k|] /=; rewrite ?mn ?m'n //.
  by apply/eqP; move/eqP: eq1; rewrite eq0 eqn_add2l eqn_pmul2r.
by move=> k; have [j ->|->] := unliftP ord0 k; [apply: eqt | apply: eq0].
Qed.

Lemma sum_count K (F : nat -> nat) s : all (ltn^~ K) s ->
  (\sum_(x <- s) F x = \sum_(k < K) count_mem (k : nat) s * F k)%N.
Proof.
elim: s => [|x s IH] /=; first by rewrite big_nil big1.
case/andP=> xK /IH {}IH; rewrite big_cons IH.
under [RHS]eq_bigr do rewrite mulnDl; rewrite big_split /=; congr (_ + _)%N.
rewrite (bigD1 (Ordinal xK)) //= eqxx mul1n big1 ?addn0 // => k.
by rewrite -val_eqE /= eq_sym => /negbTE ->.
Qed.

Section Before.
Variables (R : realFieldType) (n m : nat) (h : head R 1 m).
Hypothesis WK0 : WK h = 0.                                    (* so all keys tie *)
Hypothesis WV1 : WV h = 1%:M.                                 (* W_V W_O = 1 *)
Definition code k : 'rV[R]_1 := (n.+1 ^ k)%:R%:M.             (* token k becomes (n + 1)^k *)

Lemma all_tie q X : winners (score h q) X = X.
Proof.
apply/all_filterP/allP => x _; apply/allP => y _.
by rewrite /score WK0 !mulmx0.
Qed.

Lemma attend_sum q a : size a = n -> attend h q (map code a) =
  n%:R^-1 *: ((\sum_(k <- a) n.+1 ^ k)%N%:R%:M + bV h *+ n).
Proof.
move=> sa; rewrite /attend all_tie /mean_row !size_map sa; congr (_ *: _).
rewrite !big_map (eq_bigr (fun k => code k + bV h)) => [|k _]; last by rewrite WV1 mulmx1.
rewrite big_split /= big_const_seq count_predT iter_addr_0 sa; congr (_ + _).
rewrite /code natr_sum; elim: a {sa} => [|k a IH]; first by rewrite !big_nil raddf0.
by rewrite !big_cons IH raddfD.
Qed.

Lemma same_sum q q' a b : size a = n -> size b = n ->
  attend h q (map code a) = attend h q' (map code b) -> perm_eq a b.
Proof.
move=> sa sb; rewrite !attend_sum //.
have [n0|n0] := posnP n; first by rewrite n0 in sa sb *; rewrite (size0nil sa) (size0nil sb).
have inv : n%:R^-1 != 0 :> R by rewrite invr_eq0 pnatr_eq0 -lt0n.
move/(scalerI inv)/addIr => e; have {e} : (\sum_(k <- a) n.+1 ^ k = \sum_(k <- b) n.+1 ^ k)%N.
  apply/eqP; rewrite -(eqr_nat R); apply/eqP.
  by have /(congr1 (fun A : 'rV[R]_1 => A 0 0)) := e; rewrite !mxE eqxx !mulr1n.
pose K := (\max_(k <- a ++ b) k).+1.
have below s : {subset s <= a ++ b} -> all (ltn^~ K) s.
  by move=> sub; apply/allP => k /sub ks; rewrite /= /K ltnS (big_rem _ ks) /= leq_maxl.
have [ka kb] : all (ltn^~ K) a /\ all (ltn^~ K) b.
  by split; apply: below => k ks; rewrite mem_cat ks ?orbT.
rewrite (sum_count _ ka) (sum_count _ kb) => e.
have eqc := digits _ _ e; apply/allP => k kab /=; apply/eqP.
have kK : (k < K)%N by have /allP := below _ (fun k h => h); apply.
by apply: (eqc _ _ (Ordinal kK)) => i; [rewrite -sa count_size | rewrite -sb count_size].
Qed.

(* Proposition 16.10, without skip: different multisets of n tokens have different outputs. *)
Theorem before q q' a b : size a = n -> size b = n ->
  layer false [:: h] q (map code a) = layer false [:: h] q' (map code b) -> perm_eq a b.
Proof. by move=> sa sb; rewrite /layer !big_seq1 !add0r; apply: same_sum. Qed.
(* With skip, at one and the same query token q. *)
Theorem before_skip q a b : size a = n -> size b = n ->
  layer true [:: h] q (map code a) = layer true [:: h] q (map code b) -> perm_eq a b.
Proof. by move=> sa sb; rewrite /layer !big_seq1 => /addrI; apply: same_sum. Qed.
End Before.

(* An instance: the head with these weights and no biases. *)
Fact before_instance (R : realFieldType) : exists h : head R 1 1, WK h = 0 /\ WV h = 1%:M.
Proof. by exists (Head 0 0 0 0 1%:M 0). Qed.
