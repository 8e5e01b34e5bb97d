(* Page 9: Any sparse pattern in logarithmic dimension (Theorem 9.7 for signs) *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import exponential logarithmic_dimension logarithmic_dimension_3.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Import Criteria.

Section Inner.
Variables (F : rcfType) (e : F -> F).
Hypothesis eE : exponential e.
(* ---- Inner products ---- *)
Definition dot n (x y : 'cV[F]_n) := \sum_j x j 0 * y j 0.
Lemma sq_comb n (x y : 'cV[F]_n) a b :
  sq (b *: x + a *: y) = b ^+ 2 * sq x + 2%:R * (a * b) * dot x y + a ^+ 2 * sq y.
Proof.
rewrite /sq /dot !mulr_sumr -!big_split; apply: eq_bigr => j _ /=.
rewrite 3!mxE; move: (x j 0) (y j 0) => u v; ring.
Qed.
(* Step 1 of the proof of Theorem 9.7 *)
Lemma inner n d (x y : 'cV[F]_n) a b eta : (0 < d)%N -> 0 < eta <= 1 ->
  0 < a -> 0 < b -> sq x = a ^+ 2 -> sq y = b ^+ 2 ->
  chance F [set B : 'M[bool]_(n, d) | eta * (a * b) <
    `|dot ((signs F B)^T *m x) ((signs F B)^T *m y) - dot x y|] <= 4%:R * e (- (d%:R * rho eta)).
Proof.
move=> d0 eta1 a0 b0 xa yb.
pose A (w : 'cV[F]_n) := [set B : 'M[bool]_(n, d) |
  eta * sq w < `|sq ((signs F B)^T *m w) - sq w|].
set p := b *: x + a *: y; set q := b *: x + (- a) *: y.
apply: le_trans (_ : chance F (A p :|: A q) <= _); last first.
  apply: le_trans (chanceU _ _ _) _.
  apply: le_trans (ler_add (lengths_any eE p d0 eta1) (lengths_any eE q d0 eta1)) _.
  by rewrite -mulrDl -natrD.
apply: chanceS; apply/subsetP => B; rewrite !inE; apply: contraLR; rewrite negb_or -!leNgt.
set R := (signs F B)^T; have Rp : R *m p = b *: (R *m x) + a *: (R *m y).
  by rewrite mulmxDr -!scalemxAr.
have Rq : R *m q = b *: (R *m x) + (- a) *: (R *m y) by rewrite mulmxDr -!scalemxAr.
rewrite Rp Rq !sq_comb xa yb; case/andP=> hp hq.
have f0 : 0 < 4%:R * (a * b) by rewrite !mulr_gt0 ?ltr0n.
rewrite -(ler_pmul2l f0) -[X in X * `|_|](gtr0_norm f0) -normrM.
set X := sq (R *m x) in hp hq *; set Y := sq (R *m y) in hp hq *; set D := dot (R *m x) _ in hp hq *.
set D0 := dot x y in hp hq *.
have := le_trans (ler_norm_sub _ _) (ler_add hp hq).
by congr (_ <= _); [congr `|_| | idtac]; ring.
Qed.
End Inner.

(* ---- Theorem 9.7 ---- *)
Section Plain.
Variables (F : rcfType) (e l : F -> F).
Hypotheses (eE : exponential e) (lE : logarithm e l).
Lemma ln_gt0 y : 1 < y -> 0 < l y.
Proof.
by move=> y1; rewrite -(exp_lt eE) (exp0 eE) (lnK lE) // (lt_trans ltr01).
Qed.
Lemma ln_le y z : 0 < y -> y <= z -> l y <= l z.
Proof. by move=> y0 yz; rewrite -(exp_le eE) !(lnK lE) // (lt_le_trans y0). Qed.

Variables (n d k : nat) (A : 'M[F]_n) (low : 'I_n -> F) (gamma eps1 eps2 delta : F).
Hypotheses (n0 : (0 < n)%N) (e1 : 0 < eps1 < 1) (e2 : 0 < eps2 < 1) (delta1 : 0 < delta < 1).
(* A pattern with at most k wanted entries a row, which differ by a factor of at most gamma; low i is
   the least wanted entry of row i. *)
Hypothesis pA : pattern A.
Hypothesis few : forall i, (#|S A i| <= k)%N.
Hypothesis factor : forall i j m, j \in S A i -> m \in S A i -> A i j <= gamma * A i m.
Hypothesis least : forall i,
  (exists2 m, m \in S A i & A i m = low i) /\ forall m, m \in S A i -> low i <= A i m.

Definition softmax (L : 'M[F]_n) : 'M[F]_n := \matrix_(i, j) (e (L i j) / \sum_m e (L i m)).
(* The logits that are wanted *)
Definition beta := l ((1 + eps2) / eps1).
Definition wanted : 'M[F]_n :=
  \matrix_(i, j) (if j \in S A i then beta + l (A i j / low i) else 0).
Definition b := l (gamma * (1 + eps2) / eps1).
Definition eta := l (1 + eps2) / (2%:R * Num.sqrt k%:R * b).
(* Q = B R, K = R, for a matrix R of signs *)
Definition queries (R : 'M[F]_(n, d)) := wanted *m R.
Definition attention (R : 'M[F]_(n, d)) := softmax (queries R *m R^T).

Let i0 : 'I_n := Ordinal n0.
Lemma gamma1 : 1 <= gamma.
Proof.
have [_ /set0Pn[m mS]] := pA i0; have m0 : 0 < A i0 m by move: mS; rewrite inE.
by rewrite -(ler_pmul2r m0) mul1r; apply: factor.
Qed.
Lemma k_gt0 : (0 < k)%N.
Proof. by have [_] := pA i0; rewrite -card_gt0 => /leq_trans; apply. Qed.
Lemma eps10 : 0 < eps1. Proof. by case/andP: e1. Qed.
Lemma q1 : 1 < 1 + eps2. Proof. by case/andP: e2 => e20 _; rewrite ltr_addl. Qed.
Lemma q0 : 0 < 1 + eps2. Proof. exact: lt_trans ltr01 q1. Qed.
Lemma top1 : 1 + eps2 < (1 + eps2) / eps1.
Proof.
by case/andP: e1 => e10 e11; rewrite ltr_pdivl_mulr // -[X in _ < X]mulr1 ltr_pmul2l ?q0.
Qed.
Lemma beta_gt0 : 0 < beta.
Proof. by apply: ln_gt0; apply: lt_trans q1 top1. Qed.
Lemma bE : b = l gamma + beta.
Proof.
rewrite /b -mulrA (lnM eE lE) //; first exact: lt_le_trans ltr01 gamma1.
exact: lt_trans q0 top1.
Qed.
Lemma lgamma0 : 0 <= l gamma.
Proof. by rewrite -(ln1 eE lE); apply: ln_le; rewrite ?ltr01 ?gamma1. Qed.
Lemma b_gt0 : 0 < b. Proof. by rewrite bE ltr_paddl ?lgamma0 ?beta_gt0. Qed.
Lemma lq : 0 < l (1 + eps2). Proof. exact: ln_gt0 q1. Qed.
Lemma lqb : l (1 + eps2) <= b.
Proof.
rewrite bE; apply: le_trans (_ : beta <= _); last by rewrite ler_addr lgamma0.
by apply: ln_le; rewrite ?q0 // ltW ?top1.
Qed.
Lemma sk : 1 <= Num.sqrt k%:R :> F.
Proof. by rewrite -[X in X <= _]sqrtr1; apply: ler_wsqrtr; rewrite ler1n k_gt0. Qed.
Lemma den : 0 < 2%:R * Num.sqrt k%:R * b.
Proof. by rewrite !mulr_gt0 ?ltr0n ?b_gt0 ?(lt_le_trans ltr01 sk). Qed.
Lemma eta1 : 0 < eta <= 1.
Proof.
rewrite /eta divr_gt0 ?lq ?den //= ler_pdivr_mulr ?den // mul1r; apply: le_trans lqb _.
rewrite -[X in X <= _]mul1r; apply: ler_wpmul2r; first exact: ltW b_gt0.
rewrite -[X in X <= _]mul1r; apply: ler_pmul; rewrite ?ler01 ?sk //.
by rewrite ler1n.
Qed.
Lemma low_gt0 i : 0 < low i.
Proof. by have [[m mS <-] _] := least i; move: mS; rewrite inE. Qed.
Lemma ratio i j : j \in S A i -> 0 <= l (A i j / low i) <= l gamma.
Proof.
move=> jS; have [[m mS mE] lo] := least i; apply/andP; split.
  rewrite -(ln1 eE lE); apply: ln_le; first exact: ltr01.
  by rewrite ler_pdivl_mulr ?low_gt0 // mul1r lo.
apply: ln_le; last by rewrite ler_pdivr_mulr ?low_gt0 // -mE factor.
by rewrite divr_gt0 ?low_gt0 //; move: jS; rewrite inE.
Qed.
(* A row of B has length at most sqrt k b. *)
Definition row_of i : 'cV[F]_n := \col_j wanted i j.
Lemma row_le i : sq (row_of i) <= (Num.sqrt k%:R * b) ^+ 2.
Proof.
rewrite exprMn sqr_sqrtr ?ler0n // /sq (bigID (mem (S A i))) /= [X in _ + X]big1 => [|j jS].
  rewrite addr0; apply: le_trans (_ : \sum_(j in S A i) b ^+ 2 <= _).
    apply: ler_sum => j jS; rewrite !mxE jS; have /andP[r0 r1] := ratio jS.
    apply: ler_expn2r; rewrite ?nnegrE ?(ltW b_gt0) ?addr_ge0 ?(ltW beta_gt0) //.
    by rewrite bE addrC ler_add2r.
  rewrite sumr_const -[_ *+ #|_|]mulr_natl; apply: ler_wpmul2r; first exact: sqr_ge0.
  by rewrite ler_nat few.
by rewrite !mxE (negbTE jS) expr0n.
Qed.
Lemma row_gt0 i : 0 < sq (row_of i).
Proof.
have [_ /set0Pn[m mS]] := pA i; rewrite /sq (bigD1 m) //=; apply: ltr_paddr.
  by apply: sumr_ge0 => j _; apply: sqr_ge0.
rewrite !mxE mS exprn_gt0 //; apply: ltr_paddr; last exact: beta_gt0.
by case/andP: (ratio mS).
Qed.
Definition len i := Num.sqrt (sq (row_of i)).
Lemma logitE (R : 'M[F]_(n, d)) i j :
  (queries R *m R^T) i j = dot (R^T *m row_of i) (R^T *m delta_mx j 0).
Proof.
rewrite mxE; apply: eq_bigr => c _; congr (_ * _).
  by rewrite !mxE; apply: eq_bigr => m _; rewrite !mxE mulrC.
rewrite !mxE (bigD1 j) //= !mxE !eqxx mulr1 big1 ?addr0 // => m /negbTE mj.
by rewrite !mxE mj mulr0.
Qed.
Lemma dot_delta (w : 'cV[F]_n) j : dot w (delta_mx j 0) = w j 0.
Proof.
rewrite /dot (bigD1 j) //= mxE !eqxx mulr1 big1 ?addr0 // => m /negbTE mj.
by rewrite mxE mj mulr0.
Qed.
Lemma sq_delta j : sq (delta_mx j 0 : 'cV[F]_n) = 1 ^+ 2.
Proof.
rewrite /sq (bigD1 j) //= mxE !eqxx big1 ?addr0 // => m /negbTE mj.
by rewrite mxE mj expr0n.
Qed.
(* Step 2: all logits are within half of ln (1 + eps2) of those that are wanted, but for a chance of delta. *)
Definition close (R : 'M[F]_(n, d)) := [forall i, forall j,
  `|(queries R *m R^T) i j - wanted i j| <= eta * (len i * 1)].
Hypothesis enough : (2%:R * l n%:R + l (4%:R / delta)) / (eta ^+ 2 / 4%:R - eta ^+ 3 / 6%:R) <= d%:R.
Lemma rho_gt0 : 0 < rho eta.
Proof.
have [h0 h1] := andP eta1.
have -> : rho eta = eta ^+ 2 * ((1 - eta) / 6%:R + 12%:R^-1) by rewrite /rho; field.
rewrite mulr_gt0 ?exprn_gt0 //; apply: ltr_paddl; last by rewrite invr_gt0 ltr0n.
by rewrite divr_ge0 ?subr_ge0 ?ler0n.
Qed.
Lemma enough' : 2%:R * l n%:R + l (4%:R / delta) <= d%:R * rho eta.
Proof. by move: enough; rewrite -/(rho eta) ler_pdivr_mulr ?rho_gt0. Qed.
Lemma n1 : 1 <= n%:R :> F. Proof. by rewrite ler1n. Qed.
Lemma delta4 : 1 < 4%:R / delta.
Proof.
case/andP: delta1 => h0 h1; rewrite ltr_pdivl_mulr // mul1r (lt_trans h1) // ltr1n //.
Qed.
Lemma d_gt0 : (0 < d)%N.
Proof.
rewrite lt0n; apply/eqP => d0; move: enough'; rewrite d0 mul0r leNgt; case/negP.
apply: ltr_paddl; last exact: ln_gt0 delta4.
by rewrite mulr_ge0 ?ler0n // -(ln1 eE lE) ln_le ?ltr01 ?n1.
Qed.
Lemma few_far : chance F [set B : 'M[bool]_(n, d) | ~~ close (signs F B)] <= delta.
Proof.
pose far (p : 'I_n * 'I_n) := [set B : 'M[bool]_(n, d) | eta * (len p.1 * 1) <
  `|dot ((signs F B)^T *m row_of p.1) ((signs F B)^T *m delta_mx p.2 0) -
    dot (row_of p.1) (delta_mx p.2 0)|].
pose U : {set 'M[bool]_(n, d)} := \bigcup_p far p.
apply: le_trans (_ : chance F U <= _).
  apply: chanceS; apply/subsetP => B; rewrite inE negb_forall => /existsP[i].
  rewrite negb_forall => /existsP[j]; rewrite -ltNge => bad.
  apply/bigcupP; exists (i, j) => //; rewrite inE /= dot_delta mxE -logitE.
  exact: bad.
apply: le_trans (chance_bigcup _ _ _) _.
have one (p : 'I_n * 'I_n) : chance F (far p) <= 4%:R * e (- (d%:R * rho eta)).
  apply: (inner eE d_gt0 eta1); rewrite ?ltr01 ?sqrtr_gt0 ?row_gt0 ?sq_delta //.
  by rewrite sqr_sqrtr // ltW ?row_gt0.
apply: le_trans (ler_sum _ (fun p _ => one p)) _.
have dl : 0 < delta by case/andP: delta1.
have N0 : 0 < n%:R :> F by rewrite ltr0n.
rewrite sumr_const card_prod card_ord -[_ *+ (n * n)]mulr_natl natrM.
have en : e (- (d%:R * rho eta)) <= (n%:R ^+ 2 * (4%:R / delta))^-1.
  have p4 : 0 < 4%:R / delta := lt_trans ltr01 delta4.
  rewrite -[X in X * (_ / _)](lnK lE (exprn_gt0 2 N0)) -{1}(lnK lE p4) -(expD eE) -(expN eE).
  rewrite (exp_le eE) ler_oppl opprK; apply: le_trans enough'.
  by rewrite expr2 (lnM eE lE) // ler_add2r mulr_natl mulr2n.
apply: le_trans (_ : n%:R * n%:R * (4%:R * (n%:R ^+ 2 * (4%:R / delta))^-1) <= _).
  by do 2![apply: ler_wpmul2l; first by rewrite ?mulr_ge0 ?ler0n].
rewrite le_eqVlt; apply/orP; left; apply/eqP; field.
by rewrite !gt_eqF.
Qed.
(* Step 3: the criteria *)
Lemma len_le i : eta * (len i * 1) <= l (1 + eps2) / 2%:R.
Proof.
have /andP[h0 _] := eta1.
apply: le_trans (_ : eta * (Num.sqrt k%:R * b) <= _).
  apply: ler_wpmul2l; first exact: ltW.
  rewrite mulr1 -[X in _ <= X]ger0_norm; last by rewrite mulr_ge0 ?sqrtr_ge0 ?(ltW b_gt0).
  by rewrite -sqrtr_sqr ler_wsqrtr // row_le.
rewrite le_eqVlt; apply/orP; left; apply/eqP; rewrite /eta; field.
by rewrite !gt_eqF ?b_gt0 ?(lt_le_trans ltr01 sk).
Qed.
Lemma close_follows R : close R -> follows eps1 eps2 A (attention R).
Proof.
move=> /forallP cl; set L := queries R *m R^T.
have near i j : `|L i j - wanted i j| <= l (1 + eps2) / 2%:R.
  by apply: le_trans (len_le i); have /forallP := cl i; apply.
have up i j : L i j <= wanted i j + l (1 + eps2) / 2%:R.
  by have := near i j; rewrite ler_distl => /andP[].
have dn i j : wanted i j - l (1 + eps2) / 2%:R <= L i j.
  by have := near i j; rewrite ler_distl => /andP[].
have Z i : 0 < \sum_m e (L i m).
  rewrite (bigD1 i) //=; apply: ltr_paddr; last exact: exp_gt0.
  by apply: sumr_ge0 => m _; exact: ltW (exp_gt0 eE _).
have ME i j : attention R i j = e (L i j) / \sum_m e (L i m) by rewrite mxE.
have M0 i j : 0 < attention R i j by rewrite ME divr_gt0 ?(exp_gt0 eE).
split=> [i j|i j _|i j m jS mS|i j m jS mS]; [exact: ltW|exact: M0| |].
  rewrite !ME mulrA; apply: ler_wpmul2r; first by rewrite invr_ge0 ltW.
  rewrite -[X in _ <= X * _](lnK lE eps10) -(expD eE) (exp_le eE).
  apply: le_trans (up i j) _; apply: le_trans (ler_add (lexx _) (dn i m)).
  rewrite !mxE (negbTE jS) mS add0r; have /andP[r0 _] := ratio mS.
  have bE' : beta = l (1 + eps2) - l eps1.
    apply/eqP; rewrite eq_sym subr_eq; apply/eqP; rewrite /beta -(lnM eE lE) ?eps10 ?divfK //.
      by rewrite gt_eqF ?eps10.
    by rewrite divr_gt0 ?q0 ?eps10.
  rewrite bE' -subr_ge0; set lg := l (A i m / low i) in r0 *.
  have -> : l eps1 + (l (1 + eps2) - l eps1 + lg - l (1 + eps2) / 2%:R) - l (1 + eps2) / 2%:R = lg.
    by field.
  exact: r0.
have Aj : 0 < A i j by move: jS; rewrite inE.
have Am : 0 < A i m by move: mS; rewrite inE.
rewrite ler_pdivr_mulr ?divr_gt0 // !ME -mulf_div divff ?invr_eq0 ?gt_eqF // mulr1.
rewrite -(expN eE) -(expD eE).
have -> : (1 + eps2) * (A i j / A i m) = e (l (1 + eps2) + (l (A i j / low i) - l (A i m / low i))).
  rewrite !(expD eE) (expN eE) !(lnK lE) ?q0 ?divr_gt0 ?low_gt0 //; congr (_ * _).
  by field; rewrite !gt_eqF ?low_gt0.
rewrite (exp_le eE); apply: le_trans (ler_sub (up i j) (dn i m)) _.
rewrite !mxE jS mS le_eqVlt; apply/orP; left; apply/eqP; move: (l _) (l _) (l _) => x y z.
by field.
Qed.
(* Theorem 9.7 (Plain projection), for signs *)
Theorem plain : exists2 good : {set 'M[bool]_(n, d)}, 1 - delta <= chance F good &
  forall B, B \in good -> follows eps1 eps2 A (attention (signs F B)).
Proof.
exists [set B | close (signs F B)] => [|B]; last by rewrite inE; apply: close_follows.
rewrite ler_subl_addr; apply: le_trans (ler_add (lexx _) few_far).
rewrite /chance -mulrDl ler_pdivl_mulr ?total // mul1r -natrD ler_nat.
rewrite -cardsT -[X in (X <= _)%N](cardsID [set B | close (signs F B)]) setTI leq_add2l subset_leq_card //.
by apply/subsetP => B; rewrite !inE andbT.
Qed.
End Plain.

(* The identity, for any number of tokens: in some dimension some signs give an attention that follows it. *)
Example identity (F : rcfType) (e l : F -> F) n (h := 2%:R^-1 : F) : exponential e -> logarithm e l ->
  exists d, exists B : 'M[bool]_(n.+1, d),
    follows h h 1%:M (attention e l 1%:M (fun _ => 1) h h (signs F B)).
Proof.
move=> eE lE; have h1 : 0 < h < 1.
  by rewrite invr_gt0 ltr0n /= invf_lt1 ?ltr0n ?ltr1n.
set x := (2%:R * l n.+1%:R + l (4%:R / h)) / rho (eta l 1 1 h h).
have [d xd] := exp_archimedean eE x; exists d.
have SE i : S (1%:M : 'M[F]_n.+1) i = [set i].
  by apply/setP => j; rewrite !inE mxE eq_sym; case: eqVneq; rewrite ?ltr01 ?ltxx.
have I1 (i j : 'I_n.+1) : j \in S (1%:M : 'M[F]_n.+1) i -> (1%:M : 'M[F]_n.+1) i j = 1.
  by rewrite SE inE => /eqP ->; rewrite mxE eqxx.
have [||i j m /I1 -> /I1 ->|i||good Pg gF] :=
  @plain F e l eE lE n.+1 d 1 1%:M (fun _ => 1) 1 h h h isT h1 h1 h1.
- move=> i; split=> [j|]; first by rewrite mxE ler0n.
  by rewrite SE; apply/set0Pn; exists i; rewrite inE.
- by move=> i; rewrite SE cards1.
- by rewrite mulr1.
- by split=> [|m /I1 ->] //; exists i; rewrite ?I1 ?SE ?inE.
- exact: ltW xd.
have [/set0Pn[B Bg]|] := boolP (good != set0); first by exists B; apply: gF.
rewrite negbK => /eqP g0; move: Pg; rewrite g0 /chance cards0 mul0r subr_le0 leNgt.
by case/andP: h1 => _ ->.
Qed.
